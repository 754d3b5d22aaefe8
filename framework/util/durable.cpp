#include "util/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <vector>

#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

void sync_folder(const fs::path& folder) {
  const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0 && errno == EACCES) return;  // it may be writable but not listable
  const int cause = handle < 0 || ::fsync(handle) != 0 ? errno : 0;
  if (handle >= 0) ::close(handle);
  if (cause == 0 || cause == EINVAL || cause == ENOTSUP) return;
  fail(ErrorKind::storage, "cannot write '{}': {}", folder.string(), std::strerror(cause));
}

void make_folder(const fs::path& folder, std::error_code& error) {
  fs::path there = folder.parent_path();  // the existing part, and at least the folder's parent
  std::error_code ignored;
  while (!there.empty() && there.has_relative_path() && !fs::exists(there, ignored)) there = there.parent_path();
  fs::create_directories(folder, error);
  if (error) return;
  for (fs::path each = folder.parent_path();; each = each.parent_path()) {
    sync_folder(each);
    if (each == there || each.empty() || !each.has_relative_path()) return;
  }
}

bool is_special_file(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

namespace {

// Whether the name is "NAME.new-PID", and this machine has no such process.
bool is_abandoned(std::string_view name, std::span<const std::string_view> endings) {
  constexpr std::string_view kMark = ".new-";
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos) return false;
  const auto is_ending = [&](std::string_view ending) { return name.substr(0, mark).ends_with(ending); };
  if (endings.size() > 0 && std::none_of(endings.begin(), endings.end(), is_ending)) return false;
  const std::string_view number = name.substr(mark + kMark.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), process);
  const bool is_number = error == std::errc() && end == number.data() + number.size() && process > 0;
  return is_number && ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

void remove_abandoned_files(const fs::path& folder, std::span<const std::string_view> endings, std::chrono::hours age) {
  const auto newest = fs::file_time_type::clock::now() - age;
  std::vector<fs::path> gone;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const bool is_file = entry->symlink_status(error).type() == fs::file_type::regular;
    if (!is_file || !is_abandoned(entry->path().filename().string(), endings)) continue;
    std::error_code unknown;
    if (const auto written = entry->last_write_time(unknown); !unknown && written <= newest) gone.push_back(entry->path());
  }
  for (const fs::path& path : gone) fs::remove(path, error);
}

bool is_still_at(int open_file, const fs::path& path) {
  struct stat opened {
  }, found{};
  if (::fstat(open_file, &opened) != 0) return true;
  if (::stat(path.c_str(), &found) != 0) return errno != ENOENT && errno != ENOTDIR;
  return opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

}  // namespace millrace
