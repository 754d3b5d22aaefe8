#include "upload.h"

#include <algorithm>
#include <utility>

#include "millrace/error.h"

namespace millrace::s3 {

Upload::Upload(Client& client, std::string url, std::function<void()> done)
    : client_(client), url_(std::move(url)), done_(std::move(done)) {}

Upload::~Upload() {
  if (upload_.empty()) return;
  try {
    client_.abandon(url_, upload_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a destructor cannot report it; the parts left are not visible
  }
}

std::size_t Upload::part_bytes() const {
  return std::max(client_.settings().part, kLeastPart) << (etags_.size() / kPartsOfASize);
}

void Upload::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  bytes_ += bytes;
  while (bytes > 0) {
    if (part_.size() == part_bytes()) send_part();  // more data follow, so this is not the last part
    const std::size_t taken = std::min(bytes, part_bytes() - part_.size());
    part_.insert(part_.end(), from, from + taken);
    from += taken;
    bytes -= taken;
  }
}

void Upload::send_part() {
  if (upload_.empty()) upload_ = client_.begin(url_);
  etags_.push_back(client_.put_part(url_, upload_, etags_.size() + 1, part_));
  part_.clear();
}

void Upload::commit() {
  if (upload_.empty()) {
    client_.put(url_, part_);
  } else {
    send_part();
    client_.complete(url_, upload_, etags_);
    upload_.clear();
  }
  done_();
  const std::uint64_t there = client_.stat(url_).total;
  if (there != bytes_) fail(ErrorKind::storage, "'{}' has {} bytes after {} were written", url_, there, bytes_);
}

}  // namespace millrace::s3
