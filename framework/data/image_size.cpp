#include "millrace/util/image_size.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(),
                                                   [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

// REQUIRES: at + size <= bytes.size()
std::uint32_t number(Bytes bytes, std::size_t at, std::size_t size, bool lowest_first = false) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8U | bytes[lowest_first ? at + size - 1 - i : at + i];
  return value;
}

// Whether an EXIF block (a TIFF header with its first directory) says that the image lies on its side.
bool swaps_sides(Bytes tiff) {
  if (tiff.size() < 8) return false;
  const bool lowest_first = tiff[0] == 'I';
  const std::size_t directory = number(tiff, 4, 4, lowest_first);
  if (directory + 2 > tiff.size()) return false;
  const std::size_t entries = number(tiff, directory, 2, lowest_first);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + i * 12;
    if (at + 12 > tiff.size()) return false;
    constexpr std::uint32_t kOrientation = 0x0112;
    if (number(tiff, at, 2, lowest_first) == kOrientation) {
      const std::uint32_t value = number(tiff, at + 8, 2, lowest_first);
      return value >= 5 && value <= 8;
    }
  }
  return false;
}

std::optional<ImageSize> jpeg_size(Bytes jpeg) {
  using namespace std::string_view_literals;
  bool swaps = false, has_exif = false;
  for (std::size_t at = 2; at + 4 <= jpeg.size();) {
    if (jpeg[at] != 0xff) return {};
    const std::uint8_t marker = jpeg[at + 1];
    if (marker == 0xff) {  // padding
      ++at;
      continue;
    }
    const std::size_t length = number(jpeg, at + 2, 2);
    const bool is_frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (is_frame) {
      if (at + 9 > jpeg.size()) return {};
      const int height = static_cast<int>(number(jpeg, at + 5, 2)), width = static_cast<int>(number(jpeg, at + 7, 2));
      return swaps ? ImageSize{height, width} : ImageSize{width, height};
    }
    if (length < 2 || marker == 0xda || at + 2 + length > jpeg.size()) return {};
    const Bytes content = jpeg.subspan(at + 4, length - 2);
    constexpr std::string_view kExif = "Exif\0\0"sv;
    if (marker == 0xe1 && !has_exif && begins_with(content, kExif)) {
      has_exif = true;
      swaps = swaps_sides(content.subspan(kExif.size()));
    }
    at += 2 + length;
  }
  return {};
}

}  // namespace

std::optional<ImageSize> image_size(Bytes begin) {
  std::optional<ImageSize> size;
  if (begins_with(begin, "\xff\xd8")) size = jpeg_size(begin);
  if (begins_with(begin, "\x89PNG\r\n\x1a\n") && begin.size() >= 24) {
    constexpr std::uint32_t kMost = 0x7fffffff;
    size = ImageSize{static_cast<int>(std::min(number(begin, 16, 4), kMost)),
                     static_cast<int>(std::min(number(begin, 20, 4), kMost))};
  }
  if (size && (size->width < 1 || size->height < 1)) return {};
  return size;
}

}  // namespace millrace
