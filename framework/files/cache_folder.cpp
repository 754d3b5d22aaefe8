#include "millrace/util/cache_folder.h"

#include <cstdlib>

namespace millrace {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const char* variable, const char* ours) {
  const char* folder = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return folder != nullptr && *folder == '/' ? fs::path(folder) / ours : fs::path();
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
