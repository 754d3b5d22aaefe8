#include "base/library_folder.h"

#include <dlfcn.h>

namespace millrace {

std::filesystem::path library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &info) == 0 || !info.dli_fname) return {};
  std::error_code ignored;
  return std::filesystem::weakly_canonical(info.dli_fname, ignored).parent_path();
}

std::vector<std::filesystem::path> share_folders() {
  std::vector<std::filesystem::path> folders;
  const std::filesystem::path library = library_folder();
  for (const std::filesystem::path& root : {library.parent_path(), library.parent_path().parent_path()}) {
    if (!root.empty()) folders.push_back(root / "share" / "millrace");
  }
  return folders;
}

}  // namespace millrace
