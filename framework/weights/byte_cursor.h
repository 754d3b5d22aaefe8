// Reads little-endian numbers from untrusted bytes, in sequence.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "millrace/error.h"

namespace millrace {

class ByteCursor {
 public:
  // `what`: name of the bytes in messages, such as "the pickle". Both must outlive the cursor.
  ByteCursor(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  // Throws Error(data) when fewer are left.
  std::string_view text(std::uint64_t size) {
    if (size > left())
      fail(ErrorKind::data, "{} ends too early: {} more bytes at byte {} of {}", what_, size, at_, bytes_.size());
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::string_view line() {  // without its end
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail(ErrorKind::data, "{} ends within a line, at byte {}", what_, at_);
    const std::string_view found = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  template <class T>
  T figure() {
    T value;
    std::memcpy(&value, text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint8_t u8() { return figure<std::uint8_t>(); }
  std::uint16_t u16() { return figure<std::uint16_t>(); }
  std::uint32_t u32() { return figure<std::uint32_t>(); }
  std::uint64_t u64() { return figure<std::uint64_t>(); }

 private:
  std::string_view bytes_, what_;
  std::size_t at_ = 0;
};

}  // namespace millrace
