#include "sizes.h"

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/host_memory.h"

namespace millrace::web {

std::uint64_t checked_size(std::uint64_t bytes) {
  if (bytes <= kLargestFile) return bytes;
  fail(ErrorKind::data, "the server reports {} bytes, and no file is larger than {}", bytes, kLargestFile);
}

std::uint8_t* room_for_file(ByteBuffer& out, std::uint64_t bytes) {
  if (bytes > kLargestRead) {
    fail(ErrorKind::data, "the server reports {} bytes; a file of more than {} is not read as a whole", bytes, kLargestRead);
  }
  if (!fits_in_host_memory(bytes)) {
    fail(ErrorKind::data, "the server reports {} bytes, more than fits in memory", bytes);
  }
  return out.resize(static_cast<std::size_t>(bytes));
}

}  // namespace millrace::web
