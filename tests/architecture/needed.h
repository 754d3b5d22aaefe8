#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::architecture {

// The names of the libraries that an ELF file of this machine asks the loader for (DT_NEEDED), in its order. Throws
// std::runtime_error for a file that is no such library.
std::vector<std::string> needed_libraries(const std::filesystem::path& library);

// The folders in which it has the loader look for them (DT_RPATH, DT_RUNPATH).
std::vector<std::string> run_paths(const std::filesystem::path& library);

}  // namespace millrace::architecture
