// CRC-64/XZ: ECMA-182's polynomial, reflected, as in xz. It detects damage, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace {

// The checksum of bytes added one after the other.
class Crc64 {
 public:
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const { return ~state_; }
  std::string text() const;  // 16 hexadecimal digits

 private:
  std::uint64_t state_ = ~std::uint64_t{0};
};

}  // namespace millrace
