// Reads C++ sources as far as the checks need.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::architecture {

struct Include {
  int line = 0;
  std::string name;     // the text between quotes or brackets
  bool quoted = false;  // "name" rather than <name>
};

std::vector<std::string> read_lines(const std::filesystem::path& file);
std::vector<Include> includes_of(const std::filesystem::path& file);

// The lines without comments and text contents, so that only code is left.
std::vector<std::string> code_of(const std::filesystem::path& file);

// The sources and headers below a folder, sorted; empty if it does not exist.
std::vector<std::filesystem::path> cpp_files(const std::filesystem::path& folder);

// Tests (_test), their shared parts (_fixture), simulated libraries (fake_), benchmarks (_bench), the test kit and plugins
// loaded by tests.
bool is_test(const std::filesystem::path& file);

}  // namespace millrace::architecture
