// Event files: records of bytes, each with its length and checksums, in TensorFlow's TFRecord format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace millrace::tensorboard {

// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78: RFC 3720, B.4.
std::uint32_t crc32c(std::string_view bytes);

// A record as stored in the file: its length (8 bytes), the length's checksum (4), the bytes, their checksum (4); all
// little-endian. Checksums are masked: rotated right by 15 bits, plus 0xa282ead8.
std::string framed(std::string_view record);

// A new file events.out.tfevents.SECONDS.HOST in `folder`, appended to. Readers sort a folder's files by name, so this one gets
// more seconds than all others there. Throws Error(run) with the file's name if it cannot be created.
//
// Records that do not fit on a full disk wait in memory, at most kMaxKept bytes, and the file continues where it ended: readers
// wait for the rest of a record. Not thread-safe.
class EventFile {
 public:
  using Warn = std::function<void(const std::string& message)>;
  EventFile(const std::filesystem::path& folder, std::int64_t seconds, Warn warn);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  void write(std::string_view record);  // buffered for at most a second if writes follow
  void flush();                         // data that do not fit on the disk wait; warns once
  void sync();                          // flushes and syncs to disk
  void finish();                        // flushes. Throws Error(run) if records are missing

  static bool is_there(const std::filesystem::path& folder);  // true if the folder has an event file

  static constexpr std::size_t kMaxKept = std::size_t{4} << 20;

 private:
  void warn_once(const std::string& what);

  std::string path_;
  const Warn warn_;
  int file_ = -1;
  std::string waiting_;       // data after the end of the file
  std::int64_t flushed_ = 0;  // milliseconds of the steady clock
  std::size_t lost_ = 0;      // records
  int cause_ = 0;             // errno of the last failed call
  bool warned_ = false;
};

}  // namespace millrace::tensorboard
