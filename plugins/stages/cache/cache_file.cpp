#include "cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "entry.h"
#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace {

namespace {

constexpr char kMagic[8] = {'M', 'R', 'C', 'A', 'C', 'H', 'E', '4'};

using Checksum = std::uint64_t;

// `end`: of all entries.
CacheReader::Found entry_at(const std::uint8_t* data, std::uint64_t offset, std::uint64_t end) {
  const CacheReader::Found damaged{{}, true};
  if (offset < sizeof(FileHeader) || offset + sizeof(EntryHeader) + sizeof(Checksum) > end) return damaged;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, data + offset + offsetof(EntryHeader, bytes), sizeof bytes);
  if (bytes > end - offset - sizeof(Checksum)) return damaged;
  Checksum check = 0;
  std::memcpy(&check, data + offset + bytes, sizeof check);
  if (hash_bytes(data + offset, bytes, offset) != check) return damaged;
  return {{data + offset, bytes}, false};
}

// What passes when the machine is less busy.
bool is_lack(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO || error == EAGAIN; }

[[noreturn]] void cannot(const char* what, const std::string& path, int error) {
  fail(ErrorKind::storage, "the cache file '{}' cannot be {}: {}", path, what, std::strerror(error));
}

// What is something else is not ours to overwrite; nor is a folder, or a device.
bool begins_as_cache(int file) {
  char magic[sizeof kMagic - 1] = {};  // of any version
  const ssize_t got = pread(file, magic, sizeof magic, 0);
  return got > 0 && std::memcmp(magic, kMagic, static_cast<std::size_t>(got)) == 0;
}

}  // namespace

std::unique_ptr<CacheReader> CacheReader::open(const std::string& path, std::uint64_t fingerprint, std::string& why) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would wait for its writer
  if (file < 0) {
    if (is_lack(errno)) cannot("opened", path, errno);
    if (errno != ENOENT) why = std::strerror(errno);
    return nullptr;
  }
  struct stat status {};
  void* data = MAP_FAILED;
  int error = 0;
  const bool is_known = fstat(file, &status) == 0;
  if (is_known && (!S_ISREG(status.st_mode) || (status.st_size > 0 && !begins_as_cache(file)))) {
    ::close(file);
    fail(ErrorKind::usage, "file: '{}' is there and is no cache file; it is left as it is: name another, or remove it", path);
  }
  if (is_known && status.st_size >= static_cast<off_t>(sizeof(FileHeader))) {
    data = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) error = errno;
  }
  ::close(file);
  if (is_lack(error)) cannot("mapped", path, error);
  if (data == MAP_FAILED) {
    why = "it is no cache file";
    return nullptr;
  }
  std::unique_ptr<CacheReader> reader(
      new CacheReader(static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(status.st_size)));
  return reader->load(fingerprint, why) ? std::move(reader) : nullptr;
}

CacheReader::~CacheReader() { munmap(const_cast<std::uint8_t*>(data_), bytes_); }

bool CacheReader::load(std::uint64_t fingerprint, std::string& why) {
  FileHeader header;
  std::memcpy(&header, data_, sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    why = header.magic[sizeof kMagic - 1] < kMagic[sizeof kMagic - 1]
              ? "it is of an older version, without checksums of its images"
              : "it is of another version";
    return false;
  }
  const bool fits =
      header.bytes == bytes_ && header.table <= bytes_ && header.samples == (bytes_ - header.table) / sizeof(TableLine);
  if (!fits || hash_bytes(data_ + header.table, bytes_ - header.table) != header.check) {
    why = "it is damaged";
    return false;
  }
  if (header.fingerprint != fingerprint) {
    why = "the data or the stages before the cache have changed";
    return false;
  }
  for (std::uint64_t line = 0; line < header.samples; ++line) {
    TableLine entry;
    std::memcpy(&entry, data_ + header.table + line * sizeof entry, sizeof entry);
    if (entry.index >> 32 == 0) offsets_.set(entry.index, entry.offset);
  }
  bytes_of_entries_ = header.table;
  return true;
}

CacheReader::Found CacheReader::find(std::uint64_t index) const {
  const std::uint64_t offset = offsets_.get(index);
  return offset == 0 ? Found() : entry_at(data_, offset, bytes_of_entries_);
}

CacheWriter::CacheWriter(std::string path, std::uint64_t fingerprint)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.part", path_, getpid())), fingerprint_(fingerprint) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  file_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail(ErrorKind::storage, "file: '{}' cannot be written: {}", temporary_, std::strerror(errno));
}

CacheWriter::~CacheWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
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
  ::close(std::exchange(file_, -1));
  if (!done) {
    ::unlink(temporary_.c_str());
    fail(ErrorKind::storage, "the cache file '{}' cannot be finished: {}", path_, std::strerror(reason));
  }
  return true;
}

}  // namespace millrace
