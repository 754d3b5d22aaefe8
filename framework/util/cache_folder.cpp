#include "millrace/util/cache_folder.h"

#include <cstdlib>

#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const char* variable, const char* ours) {
  const char* folder = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  const bool is_empty = folder == nullptr || *folder == '\0';
  if (!is_empty && *folder != '/' && *ours == '\0')  // XDG specifies that relative paths are ignored
    fail(ErrorKind::usage, "{} = '{}': expected an absolute path, which is the same for all programs", variable, folder);
  return is_empty || *folder != '/' ? fs::path() : fs::path(folder) / ours;
}

}  // namespace

fs::path cache_folder(std::string_view below) {
  for (const fs::path& folder :
       {folder_of("MILLRACE_CACHE", ""), folder_of("XDG_CACHE_HOME", "millrace"), folder_of("HOME", ".cache/millrace")}) {
    if (!folder.empty()) return folder / below;
  }
  return {};
}

}  // namespace millrace
