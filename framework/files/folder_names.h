// What stands in a folder, where it matters whether nothing does or nothing can be read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace {

// The names in a folder, in no order; none where there is no such folder. Throws Error(run) that names the folder and the cause.
std::vector<std::string> names_in(const std::filesystem::path& folder);
// False: there is no such folder. Throws Error(run) where that cannot be told.
bool has_folder(const std::filesystem::path& folder);

}  // namespace millrace
