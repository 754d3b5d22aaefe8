// Reads an object in pieces of a useful size while its reader moves forward.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "millrace/sample.h"

namespace millrace {

// A piece is a megabyte, so that small members cost few requests; after a jump of more than that it is small again, so that
// little more than the headers of large members is read. Not thread-safe.
class Window {
 public:
  // Fetches `size` bytes at `offset`, all inside the object.
  using Fetch = std::function<void(std::uint64_t offset, std::size_t size, std::uint8_t* out)>;

  Window(Fetch fetch, std::uint64_t object_bytes) : fetch_(std::move(fetch)), object_bytes_(object_bytes) {}

  std::uint64_t object_bytes() const { return object_bytes_; }

  // Valid until the next call. REQUIRES: offset + size <= object_bytes().
  std::span<const std::uint8_t> at(std::uint64_t offset, std::size_t size);

 private:
  Fetch fetch_;
  std::uint64_t object_bytes_;
  std::uint64_t begin_ = 0;
  ByteBuffer bytes_;
};

}  // namespace millrace
