#include "encoded_size.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace millrace {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::int32_t number(Bytes bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return static_cast<std::int32_t>(std::min(value, std::uint32_t{1} << 20));
}

// PNG (RFC 2083): the first chunk is IHDR, which begins with width and height.
ImageShape png_size(Bytes bytes) {
  if (bytes.size() < 24) return {};
  return {number(bytes, 20, 4), number(bytes, 16, 4), 0};
}

// JPEG (ITU-T T.81, B.2.2): a frame header contains its length, a precision, height and width. SOF0 to SOF15 without DHT, JPG,
// DAC.
ImageShape jpeg_size(Bytes bytes) {
  for (std::size_t at = 2; at + 9 <= bytes.size() && bytes[at] == 0xFF;) {
    const std::uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {
      ++at;  // padding
      continue;
    }
    const bool is_frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame) return {number(bytes, at + 5, 2), number(bytes, at + 7, 2), 0};
    at += 2 + static_cast<std::size_t>(number(bytes, at + 2, 2));
  }
  return {};
}

}  // namespace

ImageShape encoded_size(std::span<const std::uint8_t> bytes) {
  static constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  if (bytes.size() >= 4 && std::equal(kPng.begin(), kPng.end(), bytes.begin())) return png_size(bytes);
  if (bytes.size() >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8) return jpeg_size(bytes);
  return {};
}

}  // namespace millrace
