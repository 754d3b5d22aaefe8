// Locates the framework's library, and from it the rest of its build or install tree.
#pragma once

#include <filesystem>
#include <vector>

namespace millrace {

// The folder of libmillrace.so, with links resolved: "/opt/millrace/lib". Empty if the loader does not know it.
std::filesystem::path library_folder();

// The folders that may be share/millrace of this tree. There are two, because some distributions have a folder for each
// architecture in lib.
std::vector<std::filesystem::path> share_folders();

}  // namespace millrace
