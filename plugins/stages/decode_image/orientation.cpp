#include "orientation.h"

#include <algorithm>
#include <cstring>

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

// The size of TIFF's types of whole numbers; 0 for another type. The standard wants SHORT, and some cameras write others.
std::size_t bytes_of_type(std::uint32_t type) {
  switch (type) {
    case 1:
    case 6: return 1;  // BYTE, SBYTE
    case 3:
    case 8: return 2;  // SHORT, SSHORT
    case 4:
    case 9: return 4;  // LONG, SLONG
    default: return 0;
  }
}

// A TIFF header and its first directory, as EXIF holds them.
int tiff_orientation(Bytes tiff) {
  if (tiff.size() < 8) return 1;
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return 1;
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | tiff[little ? at + bytes - 1 - i : at + i];
    return value;
  };
  const std::size_t directory = number(4, 4);
  if (number(2, 2) != 42 || directory > tiff.size() - 2) return 1;
  const std::uint32_t entries = number(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (entry + 12 > tiff.size()) return 1;
    if (number(entry, 2) != 0x0112) continue;
    const std::size_t bytes = bytes_of_type(number(entry + 2, 2));
    const std::uint32_t value = number(entry + 8, bytes);
    return bytes > 0 && number(entry + 4, 4) == 1 && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Orientation 2 ... 8 is a swap of rows and columns (from 5 on), after mirroring the stored columns or rows.
bool mirrors_columns(int orientation) { return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8; }
bool mirrors_rows(int orientation) { return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7; }

Box mirrored(Box box, int orientation, int height, int width) {
  const auto h = static_cast<float>(height), w = static_cast<float>(width);
  if (mirrors_columns(orientation)) box = {w - box.right, box.top, w - box.left, box.bottom};
  if (mirrors_rows(orientation)) box = {box.left, h - box.bottom, box.right, h - box.top};
  return box;
}

Box swapped(const Box& box) { return {box.top, box.left, box.bottom, box.right}; }

}  // namespace

// Goes from marker to marker as libjpeg does: bytes between segments are passed over.
int jpeg_orientation(Bytes jpeg) {
  for (std::size_t at = 2; at + 4 <= jpeg.size();) {
    const unsigned marker = jpeg[at + 1];
    if (jpeg[at] != 0xff || marker == 0 || marker == 0xff) {
      ++at;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) break;  // the scan: what comes now is no marker segment
    const bool stands_alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
    const std::size_t length = stands_alone ? 0 : std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3];
    if ((!stands_alone && length < 2) || at + 2 + length > jpeg.size()) break;
    if (marker == 0xe1 && length >= 8 && std::memcmp(jpeg.data() + at + 4, "Exif\0\0", 6) == 0)
      return tiff_orientation(jpeg.subspan(at + 10, length - 8));
    at += 2 + length;
  }
  return 1;
}

int png_orientation(Bytes png) {
  constexpr std::size_t kSignature = 8, kAround = 12;  // a chunk's length and name before its content, and a checksum behind
  for (std::size_t at = kSignature; at + kAround <= png.size();) {
    const std::size_t length =
        std::size_t{png[at]} << 24 | std::size_t{png[at + 1]} << 16 | std::size_t{png[at + 2]} << 8 | png[at + 3];
    if (length > png.size() - at - kAround) break;
    if (std::memcmp(png.data() + at + 4, "eXIf", 4) == 0) return tiff_orientation(png.subspan(at + 8, length));
    at += kAround + length;
  }
  return 1;
}

Box to_stored(const Box& upright, int orientation, int height, int width) {
  return mirrored(swaps_sides(orientation) ? swapped(upright) : upright, orientation, height, width);
}

Box to_upright(const Box& stored, int orientation, int height, int width) {
  const Box box = mirrored(stored, orientation, height, width);
  return swaps_sides(orientation) ? swapped(box) : box;
}

void turn_upright(const PixelRows& stored, int orientation, std::uint8_t* out) {
  const auto channels = static_cast<std::ptrdiff_t>(stored.shape.channels), stride = static_cast<std::ptrdiff_t>(stored.stride);
  std::ptrdiff_t right = channels, down = stride;  // steps in the stored image to the next pixel of the mirrored one
  const std::uint8_t* corner = stored.data;
  if (mirrors_columns(orientation)) {
    corner += (stored.shape.width - 1) * channels;
    right = -right;
  }
  if (mirrors_rows(orientation)) {
    corner += (stored.shape.height - 1) * stride;
    down = -down;
  }
  int height = stored.shape.height, width = stored.shape.width;
  if (swaps_sides(orientation)) {
    std::swap(right, down);
    std::swap(height, width);
  }
  for (int row = 0; row < height; ++row, corner += down) {
    const std::uint8_t* pixel = corner;
    for (int column = 0; column < width; ++column, pixel += right, out += channels) std::copy_n(pixel, channels, out);
  }
}

}  // namespace millrace
