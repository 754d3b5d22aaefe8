#include "licences.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/library_folder.h"
#include "millrace/error.h"

namespace millrace {
namespace {

std::string read_table() {
  for (const std::filesystem::path& folder : share_folders()) {
    if (std::ifstream file(folder / "licences.txt"); file) return {std::istreambuf_iterator<char>(file), {}};
  }
  return {};
}

}  // namespace

std::string licence_table() {
  std::string text = read_table();
  if (text.empty())
    fail(ErrorKind::usage, "share/millrace/licences.txt is missing from this installation: install Millrace again");
  return text;
}

std::vector<LinkedWork> linked_works() {
  std::vector<LinkedWork> works;
  std::istringstream lines(read_table());
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find("  "), file = line.find_first_not_of(' ', end);
    if (line.starts_with('#') || file == std::string::npos) continue;
    works.push_back({line.substr(0, end), line.substr(file, line.find(' ', file) - file)});
  }
  return works;
}

}  // namespace millrace
