// Locates the framework's library, and from it the rest of its build or install tree.
#pragma once

#include <filesystem>

namespace millrace {

// The folder of libmillrace.so, with links resolved: "/opt/millrace/lib". Empty if the loader does not know it.
std::filesystem::path library_folder();

}  // namespace millrace
