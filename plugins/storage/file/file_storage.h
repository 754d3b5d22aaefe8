#pragma once

#include "millrace/sample.h"
#include "millrace/storage.h"

namespace millrace {

// The scheme "file": all files of the operating system. A URL is a path ("data/train", from the current folder), or "file://" and
// an absolute path, in which %20 and the like are escapes, as in all URLs. In a plain path they are literal.
//
// Links are followed; cyclic and dangling links are errors. Listings contain only files and folders, not sockets or devices. A
// version is the time of the last change, in nanoseconds, and the size. Ownership: none; no file stays open between calls.
// Threading: no state, any number of threads.
// Errors: see Storage; permanent errors (missing, forbidden) are ErrorKind::data, as is a file larger than the machine's memory;
// errors that may pass (a disk error, too many open files) are ErrorKind::storage, and lack of memory is ErrorKind::run. There
// are no retries: a local file that failed once fails again.
class FileStorage : public Storage {
 public:
  Kind kind(const std::string& url) override;
  void list(const std::string& url, const std::function<void(Object)>& found) override;
  void list_without(const std::string& url, const std::function<bool(std::string_view)>& leaves_out,
                    const std::function<void(Object)>& found) override;
  Object stat(const std::string& url) override;
  void read(const std::string& url, ByteBuffer& out) override;
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override;
  std::unique_ptr<Writer> write(const std::string& url) override;  // an OutputFile
  void remove(const std::string& url) override;
  bool is_empty(const std::string& url) override;  // also true if the folder does not exist
};

}  // namespace millrace
