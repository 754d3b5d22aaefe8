// Reusable memory. Part of sample.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace {

// Bytes whose capacity is kept across resize(); new bytes are not initialised.
class ByteBuffer {
 public:
  static constexpr std::size_t kMax = std::size_t{1} << 62U;  // bytes; rounding it up cannot overflow

  // Discards the content if it has to grow. Throws Error(data) for more than kMax, leaving the buffer unchanged.
  std::uint8_t* resize(std::size_t size);
  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace millrace
