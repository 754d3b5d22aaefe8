// Lists folders, distinguishing missing ones from unreadable ones.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace {

// The names in a folder, unordered; empty if the folder does not exist. Throws Error(run) naming the folder and the cause.
std::vector<std::string> names_in(const std::filesystem::path& folder);
// False if the folder does not exist. Throws Error(run) if that cannot be determined.
bool has_folder(const std::filesystem::path& folder);

}  // namespace millrace
