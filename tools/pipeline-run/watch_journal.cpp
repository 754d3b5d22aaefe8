#include "watch_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/json_lines.h"
#include "millrace/util/output_file.h"
#include "millrace/util/text.h"
#include "util/durable.h"
#include "util/json.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFolderKey = R"({"folder":)", kIdKey = R"({"id":")";
constexpr std::size_t kDigits = 32;
constexpr std::size_t kFewLines = 10'000;  // not worth compacting

std::optional<FileState> state_in(std::string_view line) {
  if (!line.starts_with(kIdKey) || line.size() < kIdKey.size() + kDigits || !line.ends_with('}')) return std::nullopt;
  const char* const digits = line.data() + kIdKey.size();
  FileState state{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(digits[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    std::uint64_t& half = state[i / 16];
    half = half << 4U | digit;
  }
  return state;
}

// "" for a damaged line.
std::string path_in(const std::string& line) {
  const Json answer = Json::parse(line, nullptr, false);
  if (answer.is_discarded() || !answer.contains("path") || !answer["path"].is_string()) return {};
  return bytes_of(answer["path"].get<std::string>());
}

[[noreturn]] void fail_to(const char* what, const std::string& path) {
  fail(ErrorKind::storage, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

}  // namespace

std::string to_string(const FileState& state) { return fmt::format("{:016x}{:016x}", state[0], state[1]); }

std::optional<FileState> FileStates::of(const std::string& path, struct stat* info) {
  struct stat now {};
  errno = 0;
  if (::stat(path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return std::nullopt;
  if (info != nullptr) *info = now;
  const std::string text = fmt::format("{}\n{} {}.{} {}", path, now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec,
                                       system_of(path, now.st_dev) == System::other ? 0 : now.st_ino);
  return FileState{hash_bytes(text.data(), text.size(), 1), hash_bytes(text.data(), text.size(), 2)};
}

// Systems that are not listed may number a file anew when they are mounted, or when the file leaves the cache.
FileStates::System FileStates::system_of(const std::string& path, dev_t device) {
  const auto [known, is_new] = systems_.try_emplace(device, System::other);
  struct statfs info {};
  if (is_new && ::statfs(path.c_str(), &info) == 0) {
    constexpr std::array<std::uint64_t, 6> kDisks = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                                     TMPFS_MAGIC,      F2FS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */};
    const auto type = static_cast<std::uint64_t>(info.f_type);
    known->second = type == NFS_SUPER_MAGIC                           ? System::nfs
                    : std::ranges::find(kDisks, type) != kDisks.end() ? System::disk
                                                                      : System::other;
  }
  return known->second;
}

// A lease on reading is refused while a writer has the file. Other systems refuse it for other reasons, too.
bool FileStates::is_being_written(const std::string& path, dev_t device) const {
  if (systems_.at(device) != System::disk) return false;
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  ::fcntl(file, F_SETSIG, SIGURG);  // for a writer that opens the file meanwhile; ignored, unlike the usual SIGIO
  const bool is = ::fcntl(file, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
  ::close(file);
  return is;
}

WatchJournal::WatchJournal(const std::string& folder, FileStates& states)
    : path_((fs::path(folder) / "journal.jsonl").string()), states_(states) {
  std::error_code error;
  make_folder(folder, error);
  if (error) fail(ErrorKind::storage, "cannot create folder '{}': {}", folder, error.message());
  const std::string lock = (fs::path(folder) / "journal.lock").string();
  lock_ = ::open(lock.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail_to("create", lock);
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail_to("lock", lock);
      fail(ErrorKind::usage, "--watch: another process writes '{}': name a folder of its own with --out FOLDER", path_);
    }
    open_file();
    read();
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    ::close(lock_);
    throw;
  }
}

WatchJournal::~WatchJournal() {
  ::close(file_);
  ::close(lock_);
}

void WatchJournal::open_file() {
  if (is_special_file(path_)) fail(ErrorKind::storage, "'{}' is not a file: remove it", path_);
  const int opened = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (opened < 0) fail_to("write", path_);
  if (file_ >= 0) ::close(file_);
  file_ = opened;
}

void WatchJournal::read() {
  std::ifstream file(path_, std::ios::binary);
  off_t whole = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); whole += static_cast<off_t>(line.size()) + 1) {
    if (line.starts_with(kFolderKey)) folder_ = line;
    if (const auto state = state_in(line)) old_.push_back(*state);
  }
  if (file.bad() || !file.eof()) fail_to("read", path_);
  if (::ftruncate(file_, whole) != 0) fail_to("write", path_);
  std::ranges::sort(old_);
}

bool WatchJournal::has(const FileState& state) const {
  return recent_.contains(state) || std::ranges::binary_search(old_, state);
}

void WatchJournal::begin(const std::string& folder, std::uint64_t inode) {
  const std::string line = JsonLine().add("folder", folder).add("inode", inode).text();
  if (line != folder_) append(line);
  folder_ = line;
  if (size() > 0) compact();
}

void WatchJournal::add(const FileState& state, std::string_view answer) {
  append(answer);
  recent_.insert(state);
}

void WatchJournal::append(std::string_view line) {
  const std::string text = fmt::format("{}\n", line);
  const off_t whole = ::lseek(file_, 0, SEEK_END);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t part = ::write(file_, text.data() + written, text.size() - written);
    if (part > 0) written += static_cast<std::size_t>(part);
    if (part > 0 || (part < 0 && errno == EINTR)) continue;
    const int cause = part == 0 ? EIO : errno;
    std::ignore = ::ftruncate(file_, whole);  // or the next start cuts it
    errno = cause;
    fail_to("write", path_);
  }
  is_synced_ = false;
}

void WatchJournal::sync() {
  if (std::exchange(is_synced_, true)) return;
  if (::fdatasync(file_) != 0 && errno != EINVAL && errno != ENOTSUP) fail_to("write", path_);
}

void WatchJournal::compact_if_doubled() {
  if (recent_.size() > old_.size() + kFewLines) compact();
}

void WatchJournal::compact() {
  std::ifstream all(path_, std::ios::binary);
  OutputFile kept(path_);
  std::vector<FileState> states;
  bool is_here = false;
  std::string last_folder;
  for (std::string line; std::getline(all, line);) {
    if (line.starts_with(kFolderKey)) {
      is_here = line == folder_;
      if (line == std::exchange(last_folder, line)) continue;
    } else {
      const std::optional<FileState> state = state_in(line);
      if (!state) continue;
      const std::optional<FileState> now = is_here ? states_.of(path_in(line)) : state;
      if (now != state && (now || errno == 0 || errno == ENOENT || errno == ENOTDIR)) continue;
      states.push_back(*state);
    }
    line += '\n';
    kept.write(line);
  }
  if (!all.eof()) fail_to("read", path_);
  kept.commit();
  open_file();
  std::ranges::sort(states);
  old_ = std::move(states);
  recent_.clear();
}

}  // namespace millrace
