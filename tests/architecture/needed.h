#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::architecture {

// The libraries that an ELF file of this machine needs (DT_NEEDED), in order. Throws std::runtime_error if the file is not such
// a library.
std::vector<std::string> needed_libraries(const std::filesystem::path& library);

// The folders where the loader searches for them (DT_RPATH, DT_RUNPATH).
std::vector<std::string> run_paths(const std::filesystem::path& library);

}  // namespace millrace::architecture
