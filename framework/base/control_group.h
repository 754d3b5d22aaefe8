// The control groups of this process, which limit its memory, processors and threads.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace millrace {

// Folders of this process's control group and those above it that may hold limits of `controller`, such as "memory": the innermost
// first, of version 1 and 2. They need not exist. `root`: root of the file system, for tests.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root, std::string_view controller);

}  // namespace millrace
