#include "sizes.h"

#include <new>

#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace::web {

std::uint64_t checked_size(std::uint64_t bytes) {
  if (bytes <= kLargestFile) return bytes;
  fail(ErrorKind::data, "the server says that it has {} bytes, and no file is larger than {}", bytes, kLargestFile);
}

std::uint8_t* room_for_file(ByteBuffer& out, std::uint64_t bytes) {
  if (bytes > kLargestRead) {
    fail(ErrorKind::data, "the server says that it has {} bytes; a file of more than {} is not read as a whole", bytes,
         kLargestRead);
  }
  try {
    return out.resize(static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::data, "the server says that it has {} bytes, and there is no memory for them", bytes);
  }
}

}  // namespace millrace::web
