// Entries of a messages.txt without their test.
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "source_file.h"
#include "walls.h"

namespace millrace::architecture {

namespace fs = std::filesystem;

namespace {

// "Suite.Name" of the tests in a folder, and every word in quotes, which may name a parameter.
std::set<std::string> names_in(const fs::path& folder) {
  static const std::regex test(R"(TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))"), quoted("\"(\\w+)\"");
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream in(entry.path());
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator found(source.begin(), source.end(), test); found != std::sregex_iterator(); ++found)
      names.insert((*found)[1].str() + "." + (*found)[2].str());
    for (std::sregex_iterator found(source.begin(), source.end(), quoted); found != std::sregex_iterator(); ++found)
      names.insert((*found)[1].str());
  }
  return names;
}

void check_file(const fs::path& root, const fs::path& file, Findings& findings) {
  const std::set<std::string> names = names_in(file.parent_path());
  int number = 0;
  for (const std::string& line : read_lines(file)) {
    ++number;
    if (!line.starts_with('[') || !line.ends_with(']')) continue;
    const std::string name = line.substr(1, line.size() - 2);
    const std::size_t slash = name.find('/');
    if (!names.contains(name.substr(0, slash)) || (slash != name.npos && !names.contains(name.substr(slash + 1))))
      findings.push_back(fs::relative(file, root).string() + ":" + std::to_string(number) + ": this folder has no test " + name);
  }
}

}  // namespace

Findings check_messages(const fs::path& root) {
  std::set<fs::path> files;
  for (const char* part : {"framework", "plugins", "tools", "tests"}) {
    if (!fs::exists(root / part)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / part)) {
      if (entry.path().filename() == "messages.txt") files.insert(entry.path());
    }
  }
  Findings findings;
  for (const fs::path& file : files) check_file(root, file, findings);
  return findings;
}

}  // namespace millrace::architecture
