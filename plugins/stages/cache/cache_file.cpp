#include "cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "entry.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/host_memory.h"

namespace millrace {

namespace {

constexpr char kMagic[8] = {'M', 'R', 'C', 'A', 'C', 'H', 'E', '4'};

using Checksum = std::uint64_t;

// Returns 0 or the error; ENODATA at a premature end of file. Does not use mmap: a failing disk or a truncated file would end the
// process by a signal.
int read_fully(int file, void* to, std::size_t bytes, std::uint64_t at) {
  auto* into = static_cast<std::uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, into, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : ENODATA;
    into += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return 0;
}

// Errors that pass when the machine is less busy.
bool is_lack(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO || error == EAGAIN; }

[[noreturn]] void cannot(const char* what, const std::string& path, int error) {
  fail(ErrorKind::storage, "the cache file '{}' cannot be {}: {}", path, what, std::strerror(error));
}

// Other files must not be overwritten, nor folders or devices.
bool begins_as_cache(int file) {
  char magic[sizeof kMagic - 1] = {};  // in any version
  const ssize_t got = pread(file, magic, sizeof magic, 0);
  return got > 0 && std::memcmp(magic, kMagic, static_cast<std::size_t>(got)) == 0;
}

// Two graphs of one run may write the same file.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> number{0};
  return fmt::format("{}.{}-{}.part", path, getpid(), number++);
}

// True if the path still refers to the open file: between open() and flock() another writer may have removed or renamed it.
bool is_at(int file, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

// Makes and locks a file for this writer. Another writer may take a file that is not locked yet for abandoned and remove it; then
// this makes a new one. Processes in two containers that share the folder may have the same process id, and so the same name. On
// a file system without locks no file is taken for abandoned.
int make_locked(const std::string& path, std::string& temporary) {
  for (;;) {
    temporary = temporary_name(path);
    const int file = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) fail(ErrorKind::storage, "file: '{}' cannot be written: {}", temporary, std::strerror(errno));
    const bool is_taken = ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_taken && is_at(file, temporary)) return file;
    ::close(file);
  }
}

// Removes files named by temporary_name() that no writer has locked. Other files belong to the user.
void remove_abandoned(const std::filesystem::path& path) {
  const std::string begin = path.filename().string() + ".";
  std::vector<std::filesystem::path> parts;
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(".part")) continue;
    const std::size_t end = name.find_first_not_of("0123456789-", begin.size());
    if (end != begin.size() && end == name.size() - std::string_view(".part").size()) parts.push_back(entry.path());
  }
  for (const std::filesystem::path& part : parts) {
    const int file = ::open(part.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0 && is_at(file, part)) ::unlink(part.c_str());
    ::close(file);
  }
}

}  // namespace

std::unique_ptr<CacheReader> CacheReader::open(const std::string& path, std::uint64_t fingerprint, std::string& why) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // does not block on a pipe
  if (file < 0) {
    if (is_lack(errno)) cannot("opened", path, errno);
    if (errno != ENOENT) why = std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<CacheReader> reader(new CacheReader(file));
  struct stat status {};
  const bool is_known = fstat(file, &status) == 0;
  if (is_known && (!S_ISREG(status.st_mode) || (status.st_size > 0 && !begins_as_cache(file)))) {
    fail(ErrorKind::usage, "file: '{}' exists and is not a cache file, so it is not replaced: name another, or remove it", path);
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  return is_known && reader->load(path, bytes, fingerprint, why) ? std::move(reader) : nullptr;
}

CacheReader::~CacheReader() { ::close(file_); }

bool CacheReader::load(const std::string& path, std::uint64_t bytes, std::uint64_t fingerprint, std::string& why) {
  const auto is_read = [&](void* to, std::size_t size, std::uint64_t at) {
    const int error = read_fully(file_, to, size, at);
    if (is_lack(error)) cannot("read", path, error);
    return error == 0;
  };
  const auto unusable = [&why](const char* cause) {
    why = cause;
    return false;
  };
  FileHeader header;
  if (bytes < sizeof header || !is_read(&header, sizeof header, 0)) return unusable("it is not a cache file");
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return unusable(header.magic[sizeof kMagic - 1] < kMagic[sizeof kMagic - 1]
                        ? "it has an older version, without checksums of its images"
                        : "it has another version");
  }
  const bool fits = header.bytes == bytes && header.table >= sizeof header && header.table <= bytes &&
                    header.samples == (bytes - header.table) / sizeof(TableLine) && header.samples >> 32 == 0 &&
                    fits_in_host_memory(bytes - header.table);  // the length of a sparse file is not trustworthy
  if (!fits) return unusable("it is damaged");
  if (header.fingerprint != fingerprint) return unusable("the data or the stages before the cache have changed");
  std::vector<TableLine> table(header.samples);
  const std::size_t table_bytes = bytes - header.table;
  if (table_bytes != table.size() * sizeof(TableLine) || !is_read(table.data(), table_bytes, header.table) ||
      hash_bytes(table.data(), table_bytes) != header.check) {
    return unusable("it is damaged");
  }
  return place(table, header.table) || unusable("it is damaged");
}

bool CacheReader::place(const std::vector<TableLine>& table, std::uint64_t end) {
  for (const TableLine& line : table) {
    const std::uint64_t least = begins_.empty() ? sizeof(FileHeader) : begins_.back() + sizeof(EntryHeader) + sizeof(Checksum);
    if (line.offset < least || line.index >> 32 != 0) return false;
    begins_.push_back(line.offset);
    numbers_.set(line.index, static_cast<std::uint32_t>(begins_.size()));
  }
  begins_.push_back(end);
  return true;
}

CacheReader::Found CacheReader::find(std::uint64_t index) const {
  thread_local ByteBuffer entry;  // not zeroed
  const std::size_t number = numbers_.get(index);
  if (number == 0) return {};
  const std::uint64_t begin = begins_[number - 1], bytes = begins_[number] - begin;
  const Found damaged{{}, true};
  if (bytes < sizeof(EntryHeader) + sizeof(Checksum)) return damaged;
  entry.resize(bytes);
  if (read_fully(file_, entry.data(), bytes, begin) != 0) return damaged;
  const std::size_t content = bytes - sizeof(Checksum);
  Checksum check = 0;
  std::memcpy(&check, entry.data() + content, sizeof check);
  if (hash_bytes(entry.data(), content, begin) != check) return damaged;
  return {{entry.data(), content}, false};
}

CacheWriter::CacheWriter(std::string path, std::uint64_t fingerprint) : path_(std::move(path)), fingerprint_(fingerprint) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  remove_abandoned(path_);
  file_ = make_locked(path_, temporary_);
}

CacheWriter::~CacheWriter() {
  if (file_ < 0) return;
  ::unlink(temporary_.c_str());  // while locked: later the name may belong to another writer
  ::close(file_);
}

void CacheWriter::put(const void* data, std::size_t bytes, std::uint64_t at) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(file_, from, bytes, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(ErrorKind::storage, "the cache file '{}' cannot be written: {}", temporary_, std::strerror(errno));
    from += written;
    at += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
}

std::uint64_t CacheWriter::write(const Sample& sample) {
  const std::lock_guard lock(mutex_);
  if (file_ < 0 || !indices_.insert(sample.key.index).second) return table_.size();
  const std::size_t bytes = entry_bytes(sample);
  entry_.resize(bytes + sizeof(Checksum));
  write_entry(sample, entry_.data());
  const Checksum check = hash_bytes(entry_.data(), bytes, end_);
  std::memcpy(entry_.data() + bytes, &check, sizeof check);
  put(entry_.data(), entry_.size(), end_);
  table_.push_back({sample.key.index, end_});
  end_ += entry_.size();
  return table_.size();
}

bool CacheWriter::finish() {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return false;
  const std::size_t bytes = table_.size() * sizeof(TableLine);
  put(table_.data(), bytes, end_);
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.fingerprint = fingerprint_;
  header.samples = table_.size();
  header.table = end_;
  header.bytes = end_ + bytes;
  header.check = hash_bytes(table_.data(), bytes);
  put(&header, sizeof header, 0);
  const bool done = fsync(file_) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0;
  const int reason = errno;
  if (!done) ::unlink(temporary_.c_str());
  ::close(std::exchange(file_, -1));
  if (!done) {
    fail(ErrorKind::storage, "the cache file '{}' cannot be finished: {}", path_, std::strerror(reason));
  }
  return true;
}

}  // namespace millrace
