#include "window.h"

#include <algorithm>
#include <cassert>

namespace millrace {

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kSmall = std::size_t{16} << 10;

}  // namespace

std::span<const std::uint8_t> Window::at(std::uint64_t offset, std::size_t size) {
  assert(offset <= object_bytes_ && size <= object_bytes_ - offset);
  const std::uint64_t end = begin_ + bytes_.size();
  if (offset < begin_ || offset + size > end) {
    const std::size_t piece = offset >= begin_ && offset <= end + kLarge ? kLarge : kSmall;
    const std::uint64_t wanted = std::min<std::uint64_t>(std::max(piece, size), object_bytes_ - offset);
    bytes_.resize(0);  // stays empty if the fetch fails
    std::uint8_t* out = bytes_.resize(static_cast<std::size_t>(wanted));
    begin_ = offset;
    try {
      fetch_(offset, bytes_.size(), out);
    } catch (...) {
      bytes_.resize(0);
      throw;
    }
  }
  return {bytes_.data() + (offset - begin_), size};
}

}  // namespace millrace
