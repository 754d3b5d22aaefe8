// Where the framework's library lies: what belongs to its build or install tree is found from there.
#pragma once

#include <filesystem>

namespace millrace {

// The folder of libmillrace.so, links resolved: "/opt/millrace/lib". Empty when the loader cannot tell.
std::filesystem::path library_folder();

}  // namespace millrace
