#include "orientation.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

// The size of TIFF's integer types; 0 for other types. The standard requires SHORT, but some cameras write others.
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

// The orientation in a TIFF header and its first directory, as in EXIF. Empty without such a tag.
std::optional<int> tiff_orientation(Bytes tiff) {
  if (tiff.size() < 8) return std::nullopt;
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | tiff[little ? at + bytes - 1 - i : at + i];
    return value;
  };
  const std::size_t directory = number(4, 4);
  if (number(2, 2) != 42 || directory > tiff.size() - 2) return std::nullopt;
  const std::uint32_t entries = number(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (entry + 12 > tiff.size()) return std::nullopt;
    if (number(entry, 2) != 0x0112) continue;
    const std::size_t bytes = bytes_of_type(number(entry + 2, 2));
    const std::uint32_t value = number(entry + 8, bytes);
    return bytes > 0 && number(entry + 4, 4) == 1 && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return std::nullopt;
}

// The first tiff:Orientation with a number in an XMP packet, as an attribute or an element.
int xmp_orientation(Bytes xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (std::size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (!rest.starts_with("=\"") && !rest.starts_with('>')) continue;
    rest.remove_prefix(rest.front() == '>' ? 1 : 2);
    if (rest.empty() || rest.front() < '0' || rest.front() > '9') continue;
    return rest.front() >= '1' && rest.front() <= '8' ? rest.front() - '0' : 1;
  }
  return 1;
}

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// The prefix of a JPEG's EXIF block, and of a PNG's if a tool copied the block.
constexpr std::string_view kExif("Exif\0\0", 6);

std::optional<int> exif_orientation(Bytes block) {
  return tiff_orientation(begins_with(block, kExif) ? block.subspan(kExif.size()) : block);
}

// Inflates the first bytes, up to the size of `to`.
std::string_view unpacked(Bytes packed, std::span<char> to) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return {};
  stream.next_in = const_cast<Bytef*>(packed.data());  // zlib only reads it
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
  inflate(&stream, Z_SYNC_FLUSH);
  inflateEnd(&stream);
  return {to.data(), static_cast<std::size_t>(stream.total_out)};
}

// EXIF as exiv2 and ImageMagick store it in a PNG's text: a line end, "exif" or "APP1", the number of bytes, and the bytes in hex
// digits on several lines. Its first directory is in the first few hundred bytes.
std::optional<int> raw_profile_orientation(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  std::array<std::uint8_t, 4096> block{};
  std::size_t digits = 0;
  for (const char c : text) {
    const auto digit = static_cast<unsigned char>(c);
    if (digits == 2 * block.size()) break;
    if (std::isxdigit(digit) == 0) continue;
    const int value = std::isdigit(digit) != 0 ? digit - '0' : std::tolower(digit) - 'a' + 10;
    std::uint8_t& byte = block[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | value);
  }
  return exif_orientation(Bytes(block).first(digits / 2));
}

// A PNG text from its chunk tEXt or zTXt: a keyword, a zero, the compression method if compressed, and the text.
std::optional<int> text_orientation(Bytes content, bool is_packed) {
  std::string_view rest(reinterpret_cast<const char*>(content.data()), content.size());
  for (const std::string_view name : {"Raw profile type exif", "Raw profile type APP1"}) {
    if (!rest.starts_with(name) || rest.size() < name.size() + 2 || rest[name.size()] != '\0') continue;
    if (!is_packed) return raw_profile_orientation(rest.substr(name.size() + 1));
    std::array<char, 10'000> text;
    return raw_profile_orientation(unpacked(content.subspan(name.size() + 2), text));
  }
  return std::nullopt;
}

// Orientations 2 ... 8 mirror the stored columns or rows, then, from 5 on, swap rows and columns.
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

// Goes from marker to marker as libjpeg does, skipping bytes between segments.
int jpeg_orientation(Bytes jpeg) {
  using namespace std::literals;
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  Bytes xmp;
  for (std::size_t at = 2; at + 4 <= jpeg.size();) {
    const unsigned marker = jpeg[at + 1];
    if (jpeg[at] != 0xff || marker == 0 || marker == 0xff) {
      ++at;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) break;  // the scan begins: no more marker segments
    const bool stands_alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
    const std::size_t length = stands_alone ? 0 : std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3];
    if ((!stands_alone && length < 2) || at + 2 + length > jpeg.size()) break;
    const Bytes content = stands_alone ? Bytes() : jpeg.subspan(at + 4, length - 2);
    if (marker == 0xe1 && begins_with(content, kExif)) {
      if (const auto noted = tiff_orientation(content.subspan(kExif.size()))) return *noted;
    }
    if (marker == 0xe1 && begins_with(content, kXmp)) xmp = content.subspan(kXmp.size());
    at += 2 + length;
  }
  return xmp_orientation(xmp);
}

int png_orientation(Bytes png) {
  using namespace std::literals;
  constexpr std::string_view kXmp = "XML:com.adobe.xmp\0\0"sv;  // the keyword, and the flag for uncompressed text
  Bytes xmp;
  std::optional<int> of_text;
  constexpr std::size_t kSignature = 8, kAround = 12;  // a chunk's length and name before its content, and its checksum after
  for (std::size_t at = kSignature; at + kAround <= png.size();) {
    const std::size_t length =
        std::size_t{png[at]} << 24 | std::size_t{png[at + 1]} << 16 | std::size_t{png[at + 2]} << 8 | png[at + 3];
    if (length > png.size() - at - kAround) break;
    const Bytes content = png.subspan(at + 8, length);
    const Bytes name = png.subspan(at + 4, 4);
    if (begins_with(name, "eXIf")) {
      if (const auto noted = tiff_orientation(content)) return *noted;
    }
    const bool is_packed = begins_with(name, "zTXt");
    if (!of_text && (is_packed || begins_with(name, "tEXt"))) of_text = text_orientation(content, is_packed);
    if (begins_with(name, "iTXt") && begins_with(content, kXmp)) xmp = content;
    at += kAround + length;
  }
  return of_text ? *of_text : xmp_orientation(xmp);
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
