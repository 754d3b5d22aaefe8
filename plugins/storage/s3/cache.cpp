#include "cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/bytes.h"
#include "millrace/util/sha256.h"

namespace millrace::s3 {

namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'M', 'L', 'R', 'S', '3', 'C', '1', '\n'};
constexpr std::int64_t kAbandoned = 3600;  // seconds; an older unfinished file is abandoned

struct EntryHead {
  char magic[8];
  std::uint64_t bytes;
  Sha256Sum digest;
};
static_assert(sizeof(EntryHead) == 48);

class File {
 public:
  explicit File(int handle) : handle_(handle) {}
  ~File() {
    if (handle_ >= 0) close(handle_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return handle_ >= 0; }
  int handle() const { return handle_; }

  bool read(void* to, std::size_t size) const {
    auto* at = static_cast<std::uint8_t*>(to);
    while (size > 0) {
      const ssize_t got = ::read(handle_, at, size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

  bool write(const void* from, std::size_t size) const {
    const auto* at = static_cast<const std::uint8_t*>(from);
    while (size > 0) {
      const ssize_t put = ::write(handle_, at, size);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      at += put;
      size -= static_cast<std::size_t>(put);
    }
    return true;
  }

 private:
  int handle_;
};

bool is_unfinished(const fs::path& path) { return path.extension() == ".part"; }

}  // namespace

ObjectId object_id(const std::string& http_url, const std::string& etag) {
  const Sha256Sum digest = sha256(http_url + "\n" + etag);
  ObjectId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

DiskCache::DiskCache(std::string folder, std::uint64_t limit)
    : folder_(std::move(folder)), limit_(limit), unswept_(limit) {  // the first store sweeps
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error || access(folder_.c_str(), W_OK) != 0) {
    fail(ErrorKind::usage, "MILLRACE_S3_CACHE = '{}': cannot write there: {}", folder_,
         error ? error.message() : std::strerror(errno));
  }
}

std::string DiskCache::name_of(const ObjectId& id) { return hex_text(id); }

std::string DiskCache::name_of(const ObjectId& id, std::uint64_t offset, std::size_t size) {
  return fmt::format("{}-{}-{}", name_of(id), offset, size);
}

std::string DiskCache::path_of(const std::string& name) const { return folder_ + "/" + name.substr(0, 2) + "/" + name; }

bool DiskCache::load(const std::string& name, const std::function<std::span<std::uint8_t>(std::uint64_t)>& room) {
  const std::string path = path_of(name);
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  EntryHead head{};
  struct stat status {};
  bool sound = fstat(file.handle(), &status) == 0 && file.read(&head, sizeof head) &&
               std::memcmp(head.magic, kMagic, sizeof kMagic) == 0 &&
               head.bytes + sizeof head == static_cast<std::uint64_t>(status.st_size);
  if (sound) {
    const std::span<std::uint8_t> to = room(head.bytes);
    sound = to.size() == head.bytes && file.read(to.data(), to.size()) && sha256(to.data(), to.size()) == head.digest;
  }
  if (!sound) {
    unlink(path.c_str());
    return false;
  }
  const timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  futimens(file.handle(), now);
  return true;
}

void DiskCache::store(const std::string& name, std::span<const std::uint8_t> bytes) {
  static std::atomic<std::uint64_t> count{0};
  if (bytes.size() + sizeof(EntryHead) > limit_) return;
  make_room(bytes.size() + sizeof(EntryHead));
  const std::string path = path_of(name);
  const std::string part = fmt::format("{}.{}.{}.part", path, getpid(), count.fetch_add(1));
  std::error_code ignored;
  fs::create_directory(fs::path(path).parent_path(), ignored);
  EntryHead head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.bytes = bytes.size();
  head.digest = sha256(bytes.data(), bytes.size());
  bool written = false;
  {
    const File file(open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file) return;
    written = file.write(&head, sizeof head) && file.write(bytes.data(), bytes.size());
  }
  if (!written || rename(part.c_str(), path.c_str()) != 0) unlink(part.c_str());
}

void DiskCache::make_room(std::uint64_t written) {
  const std::lock_guard lock(mutex_);
  unswept_ += written;
  if (unswept_ <= limit_ / 16) return;
  // Only one process sweeps: two would each remove the full excess.
  const File guard(open((folder_ + "/lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!guard || flock(guard.handle(), LOCK_EX) != 0) return;
  sweep();
  unswept_ = written;
}

std::uint64_t DiskCache::sweep() {
  struct Entry {
    std::int64_t used;  // time of last use, in nanoseconds
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t sum = 0;
  std::error_code error;
  const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  for (fs::recursive_directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    if (at.depth() != 1 || ::stat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (is_unfinished(at->path()) && now - status.st_mtim.tv_sec > kAbandoned) {
      std::error_code gone;  // another process sweeps, or has renamed it
      fs::remove(at->path(), gone);
      continue;
    }
    sum += bytes;
    if (!is_unfinished(at->path()))
      entries.push_back({status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec, bytes, at->path()});
  }
  const std::uint64_t enough = limit_ - limit_ / 8;  // leaves room until the next sweep
  if (sum <= enough) return sum;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (sum <= enough) break;
    std::error_code gone;
    if (fs::remove(entry.path, gone)) sum -= entry.bytes;
  }
  return sum;
}

}  // namespace millrace::s3
