#include "config/shipped.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "base/library_folder.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".toml";

std::vector<fs::path> folders_of(const Shelf& shelf, const fs::path& parent) {
  std::vector<fs::path> folders = {parent / shelf.folder};
  if (const char* pipelines = std::getenv("MILLRACE_PIPELINES"); pipelines != nullptr && *pipelines != '\0') {
    std::error_code error;
    if (!fs::is_directory(pipelines, error))
      fail(ErrorKind::usage, "MILLRACE_PIPELINES: '{}' is not a folder{}", pipelines, error ? ": " + error.message() : "");
    folders.push_back(fs::path(pipelines) / shelf.folder);
  }
  for (const fs::path& share : share_folders()) folders.push_back(share / "pipelines" / shelf.folder);
  return folders;
}

}  // namespace

bool is_shipped_name(std::string_view text) { return text.find('/') == std::string_view::npos && !text.ends_with(kEnding); }

std::optional<std::string> find_shipped(const Shelf& shelf, const std::string& name, const fs::path& folder) {
  for (const fs::path& place : folders_of(shelf, folder)) {
    const fs::path file = place / (name + kEnding);
    if (is_readable_file(file)) return file.lexically_normal().string();
  }
  return std::nullopt;
}

std::map<std::string, std::string> shipped_files(const Shelf& shelf, const fs::path& folder) {
  std::map<std::string, std::string> files;
  std::error_code ignored;
  for (const fs::path& place : folders_of(shelf, folder)) {
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const fs::path& file = entry.path();
      if (file.extension() == kEnding) files.emplace(file.stem().string(), file.lexically_normal().string());
    }
  }
  return files;
}

std::string no_such_name(const Shelf& shelf, const std::string& name, const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& [present, file] : shipped_files(shelf, folder)) names.push_back(present);
  const auto nearest = nearest_name(name, names);
  return fmt::format("unknown {0} '{1}'{2}; {3}; write a file of your own with its ending: \"{1}.toml\"", shelf.what, name,
                     nearest ? fmt::format("; nearest is '{}'", *nearest) : "",
                     names.empty() ? fmt::format("no folder with {} was found", shelf.folder)
                                   : fmt::format("there are {}", fmt::join(names, ", ")));
}

}  // namespace millrace
