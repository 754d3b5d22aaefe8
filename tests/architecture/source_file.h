// Reading C++ sources as far as the checks need it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::architecture {

struct Include {
  int line = 0;
  std::string name;     // what stands between the quotes or brackets
  bool quoted = false;  // "name" rather than <name>
};

std::vector<std::string> read_lines(const std::filesystem::path& file);
std::vector<Include> includes_of(const std::filesystem::path& file);

// The lines without comments and without the insides of texts, so that only code is left.
std::vector<std::string> code_of(const std::filesystem::path& file);

// The sources and headers below a folder, sorted; none where it does not exist.
std::vector<std::filesystem::path> cpp_files(const std::filesystem::path& folder);

// Tests (_test), what they share (_fixture), libraries acted out (fake_), benchmarks (_bench), the test kit and the plugins that
// tests load.
bool is_test(const std::filesystem::path& file);

}  // namespace millrace::architecture
