// Event files: records of bytes, each with its length and checksums, as TensorFlow's TFRecord files have them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace millrace::tensorboard {

// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78: RFC 3720, B.4.
std::uint32_t crc32c(std::string_view bytes);

// A record as it stands in the file: its length (8 bytes), the length's checksum (4), the bytes, their checksum (4); all little
// endian. Checksums are masked: turned right by 15 bits, plus 0xa282ead8.
std::string framed(std::string_view record);

// A new file events.out.tfevents.SECONDS.HOST in `folder`, appended to. Readers take the files of a folder in the order of their
// names, so this one gets more seconds than any that is there. Throws Error(run) that names a file which cannot be made.
//
// Records that a full disk does not take wait in memory, kMostKept bytes at most, and the file goes on where it ended: readers
// wait for the rest of a record. One thread at a time.
class EventFile {
 public:
  using Warn = std::function<void(const std::string& message)>;
  EventFile(const std::filesystem::path& folder, std::int64_t seconds, Warn warn);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  void write(std::string_view record);  // buffered, for a second at most where writes follow
  void flush();                         // what does not fit on the disk waits; told to `warn`, once
  void sync();                          // flushes and brings it onto the disk
  void finish();                        // flushes. Throws Error(run) where records are missing

  static bool is_there(const std::filesystem::path& folder);  // an event file is in it

  static constexpr std::size_t kMostKept = std::size_t{4} << 20;

 private:
  void tell(const std::string& what);

  std::string path_;
  const Warn warn_;
  int file_ = -1;
  std::string waiting_;       // from where the file ends
  std::int64_t flushed_ = 0;  // milliseconds of the steady clock
  std::size_t lost_ = 0;      // records
  int cause_ = 0;             // errno of the last call that failed
  bool told_ = false;
};

}  // namespace millrace::tensorboard
