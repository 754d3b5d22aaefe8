#include "base/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

void sync_folder(const fs::path& folder) {
  const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0 && errno == EACCES) return;  // it may be written and not listed
  const int cause = handle < 0 || ::fsync(handle) != 0 ? errno : 0;
  if (handle >= 0) ::close(handle);
  if (cause == 0 || cause == EINVAL || cause == ENOTSUP) return;
  fail(ErrorKind::storage, "cannot write '{}': {}", folder.string(), std::strerror(cause));
}

void make_folder(const fs::path& folder, std::error_code& error) {
  fs::path there = folder.parent_path();  // what was there, and the folder's parent at least
  std::error_code ignored;
  while (!there.empty() && there.has_relative_path() && !fs::exists(there, ignored)) there = there.parent_path();
  fs::create_directories(folder, error);
  if (error) return;
  for (fs::path each = folder.parent_path();; each = each.parent_path()) {
    sync_folder(each);
    if (each == there || each.empty() || !each.has_relative_path()) return;
  }
}

bool is_still_at(int open_file, const fs::path& path) {
  struct stat opened {
  }, found{};
  if (::fstat(open_file, &opened) != 0) return true;
  if (::stat(path.c_str(), &found) != 0) return errno != ENOENT && errno != ENOTDIR;
  return opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

}  // namespace millrace
