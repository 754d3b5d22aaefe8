#include "config/zoo.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "base/library_folder.h"
#include "millrace/detail/value.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".toml";

// The library lies in lib, or one level deeper where a distribution keeps one folder for each architecture.
std::vector<fs::path> zoo_folders(const fs::path& beside) {
  std::vector<fs::path> folders = {beside / "networks"};
  if (const char* pipelines = std::getenv("MILLRACE_PIPELINES")) folders.push_back(fs::path(pipelines) / "networks");
  const fs::path library = library_folder();
  for (const fs::path& root : {library.parent_path(), library.parent_path().parent_path()}) {
    if (!root.empty()) folders.push_back(root / "share" / "millrace" / "pipelines" / "networks");
  }
  return folders;
}

}  // namespace

bool is_network_name(std::string_view use) { return use.find('/') == std::string_view::npos && !use.ends_with(kEnding); }

std::optional<std::string> find_network(const std::string& name, const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& place : zoo_folders(folder)) {
    const fs::path file = place / (name + kEnding);
    if (fs::is_regular_file(file, ignored)) return file.lexically_normal().string();
  }
  return std::nullopt;
}

std::map<std::string, std::string> network_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  std::error_code ignored;
  for (const fs::path& place : zoo_folders(folder)) {
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const fs::path& file = entry.path();
      if (file.extension() == kEnding) files.emplace(file.stem().string(), file.lexically_normal().string());
    }
  }
  return files;
}

std::string no_such_network(const std::string& name, const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& [present, file] : network_files(folder)) names.push_back(present);
  const auto nearest = nearest_name(name, names);
  return fmt::format("there is no network '{0}'{1}; {2}; a file of your own is named with its ending: \"{0}.toml\"", name,
                     nearest ? fmt::format("; nearest is '{}'", *nearest) : "",
                     names.empty() ? "no folder with networks was found" : fmt::format("there are {}", fmt::join(names, ", ")));
}

}  // namespace millrace
