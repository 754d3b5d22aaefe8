#include "source_file.h"

#include <algorithm>
#include <fstream>
#include <regex>

namespace millrace::architecture {

namespace fs = std::filesystem;

std::vector<std::string> read_lines(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> found;
  int number = 0;
  for (const std::string& line : read_lines(file)) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back({number, match[2], match[1] == "\""});
  }
  return found;
}

std::vector<std::string> code_of(const fs::path& file) {
  std::vector<std::string> lines = read_lines(file);
  bool in_comment = false;
  for (std::string& line : lines) {
    std::string code;
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string_view rest = std::string_view(line).substr(i);
      if (in_comment) {
        if (rest.starts_with("*/")) in_comment = false, ++i;
      } else if (quote) {
        if (line[i] == '\\')
          ++i;
        else if (line[i] == quote)
          quote = 0;
      } else if (rest.starts_with("//")) {
        break;
      } else if (rest.starts_with("/*")) {
        in_comment = true;
      } else if (line[i] == '"' || (line[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(line[i - 1]))))) {
        quote = line[i];  // except the ' of 1'000
      } else {
        code += line[i];
      }
    }
    line = code;
  }
  return lines;
}

std::vector<fs::path> cpp_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_test(const fs::path& file) {
  for (const fs::path& part : file) {
    if (part == "testkit" || part == "test_plugins") return true;
  }
  const std::string stem = file.stem();
  return stem.ends_with("_test") || stem.ends_with("_bench") || stem.ends_with("_fixture");
}

}  // namespace millrace::architecture
