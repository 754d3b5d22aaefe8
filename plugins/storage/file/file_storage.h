#pragma once

#include "millrace/sample.h"
#include "millrace/storage.h"

namespace millrace {

// The scheme "file": whatever the operating system shows as files. A URL is a path ("data/train", from the current folder), or
// "file://" and an absolute path, in which %20 and the like stand for characters, as in all URLs. In a path they are characters.
//
// Links are followed; one that leads back to a folder it lies in is an error, as is one that leads nowhere. Other things than
// files and folders (sockets, devices) are left out of listings. A version is the time of the last change, in nanoseconds, and
// the size. Ownership: none; no file stays open between calls. Threading: no state, any number of threads.
// Errors: see Storage; what the operating system refuses for good (missing, forbidden) is ErrorKind::data, as is a file larger
// than the machine's memory; what may pass (a disk error, too many open files) is ErrorKind::storage, and a lack of memory
// ErrorKind::run. There are no retries: a local file that failed once fails again.
class FileStorage : public Storage {
 public:
  Kind look(const std::string& url) override;
  void list(const std::string& url, const std::function<void(Object)>& found) override;
  void list_without(const std::string& url, const std::function<bool(std::string_view)>& leaves_out,
                    const std::function<void(Object)>& found) override;
  Object stat(const std::string& url) override;
  void read(const std::string& url, ByteBuffer& out) override;
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override;
  std::unique_ptr<Writer> write(const std::string& url) override;  // an OutputFile
  void remove(const std::string& url) override;
  bool is_empty(const std::string& url) override;  // or there is no such folder
};

}  // namespace millrace
