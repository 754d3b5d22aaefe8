#include "event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "millrace/error.h"

namespace millrace::tensorboard {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kBuffered = 64 << 10;
constexpr std::int64_t kPeriod = 1000;  // milliseconds

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1U ^ ((rest & 1U) != 0 ? 0x82f63b78U : 0U);
    table[byte] = rest;
  }
  return table;
}();

void append_little_endian(std::string& text, std::uint64_t value, int bytes) {
  for (; bytes > 0; --bytes, value >>= 8U) text += static_cast<char>(value & 0xffU);
}

void append_checksum(std::string& text, std::string_view bytes) {
  append_little_endian(text, std::rotr(crc32c(bytes), 15) + 0xa282ead8U, 4);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "localhost";
}

// The largest SECONDS of the event files in the folder; -1 if there is none.
std::int64_t newest(const std::filesystem::path& folder) {
  std::int64_t seconds = -1;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    seconds = std::max<std::int64_t>(seconds, std::strtoll(name.c_str() + kPrefix.size(), nullptr, 10));
  }
  return seconds;
}

std::int64_t now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = 0xffffffffU;
  for (const char byte : bytes) rest = rest >> 8U ^ kTable[(rest ^ static_cast<std::uint8_t>(byte)) & 0xffU];
  return ~rest;
}

std::string framed(std::string_view record) {
  std::string text;
  append_little_endian(text, record.size(), 8);
  append_checksum(text, std::string(text));
  text += record;
  append_checksum(text, record);
  return text;
}

bool EventFile::is_there(const std::filesystem::path& folder) { return newest(folder) >= 0; }

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t seconds, Warn warn) : warn_(std::move(warn)) {
  path_ = (folder / fmt::format("{}{:010}.{}", kPrefix, std::max(seconds, newest(folder) + 1), host_name())).string();
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail(ErrorKind::run, "cannot create '{}': {}", path_, std::strerror(errno));
}

EventFile::~EventFile() {
  flush();
  ::close(file_);
}

void EventFile::write(std::string_view record) {
  const std::string text = framed(record);
  if (waiting_.size() + text.size() > kMaxKept) {
    ++lost_;
    return;
  }
  waiting_ += text;
  if (waiting_.size() >= kBuffered || now() - flushed_ >= kPeriod) flush();
}

void EventFile::flush() {
  flushed_ = now();
  std::size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t taken = ::write(file_, waiting_.data() + done, waiting_.size() - done);
    if (taken < 0 && errno == EINTR) continue;
    if (taken <= 0) {
      cause_ = errno;
      warn_once("events wait in memory until they can be written");
      break;
    }
    done += static_cast<std::size_t>(taken);
  }
  waiting_.erase(0, done);
}

void EventFile::sync() {
  flush();
  if (::fsync(file_) == 0) return;
  cause_ = errno;
  warn_once("a power loss may lose events");
}

void EventFile::finish() {
  flush();
  if (waiting_.empty() && lost_ == 0) return;
  fail(ErrorKind::run, "'{}' lacks {} of events: {}", path_,
       lost_ > 0 ? fmt::format("{} records and {} bytes", lost_, waiting_.size()) : fmt::format("{} bytes", waiting_.size()),
       std::strerror(cause_));
}

void EventFile::warn_once(const std::string& what) {
  if (std::exchange(warned_, true)) return;
  warn_(fmt::format("'{}': {}: {}", path_, std::strerror(cause_), what));
}

}  // namespace millrace::tensorboard
