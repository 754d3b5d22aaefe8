#include "tests/broken_images/broken_images.h"

#include <algorithm>
#include <string_view>

#include "millrace/detail/random.h"
#include "plugins/stages/decode_image/jpeg_images_fixture.h"
#include "plugins/stages/decode_image/png_images_fixture.h"

namespace millrace::test {

namespace {

Bytes jpeg(Draw& draw, bool progressive, testing_jpeg::Kind kind = testing_jpeg::Kind::rgb) {
  testing_jpeg::Recipe recipe;
  recipe.height = static_cast<int>(draw.integer(24, 90));
  recipe.width = static_cast<int>(draw.integer(24, 90));
  recipe.kind = kind;
  recipe.progressive = progressive;
  recipe.horizontal = static_cast<int>(draw.integer(1, 2));
  recipe.vertical = static_cast<int>(draw.integer(1, 2));
  recipe.orientation = static_cast<int>(draw.integer(0, 8));
  recipe.quality = static_cast<int>(draw.integer(50, 97));
  recipe.pixels = testing_jpeg::noise(recipe.height, recipe.width, components(kind), draw.bits());
  return encode(recipe);
}

Bytes png(Draw& draw) {
  testing_png::Recipe recipe;
  recipe.height = static_cast<int>(draw.integer(24, 60));
  recipe.width = static_cast<int>(draw.integer(24, 60));
  constexpr testing_png::Colour kColours[] = {testing_png::Colour::grey, testing_png::Colour::rgb, testing_png::Colour::rgba,
                                              testing_png::Colour::grey_alpha};
  recipe.colour = kColours[draw.integer(0, 3)];
  recipe.depth = draw.chance(0.3) ? 16 : 8;
  recipe.interlaced = draw.chance(0.3);
  recipe.values = random_values(recipe, draw.bits());
  return encode(recipe);
}

// Where the frame header's marker begins, whatever its kind.
std::size_t frame_header(const Bytes& bytes) {
  for (std::size_t at = 2; at + 9 < bytes.size();) {
    if (bytes[at + 1] >= 0xc0 && bytes[at + 1] <= 0xc2) return at;
    at += 2 + (std::size_t{bytes[at + 2]} << 8 | bytes[at + 3]);
  }
  return 2;
}

Bytes with_frame(Bytes bytes, std::uint8_t marker, std::uint8_t precision) {
  const std::size_t at = frame_header(bytes);
  bytes[at + 1] = marker;
  bytes[at + 4] = precision;
  return bytes;
}

Bytes with_jpeg_size(Bytes bytes, unsigned size) {
  const std::size_t at = frame_header(bytes);
  bytes[at + 5] = bytes[at + 7] = static_cast<std::uint8_t>(size >> 8);
  bytes[at + 6] = bytes[at + 8] = static_cast<std::uint8_t>(size);
  return bytes;
}

Bytes cut_off(Bytes bytes, std::size_t size) {
  bytes.resize(std::min(size, bytes.size()));
  return bytes;
}

Bytes flipped(Bytes bytes, Draw& draw, int bits, std::size_t from) {
  for (int i = 0; i < bits; ++i) {
    auto& byte = bytes[static_cast<std::size_t>(
        draw.integer(static_cast<std::int64_t>(from), static_cast<std::int64_t>(bytes.size()) - 1))];
    byte = static_cast<std::uint8_t>(byte ^ (1 << draw.integer(0, 7)));
  }
  return bytes;
}

constexpr std::size_t kPngEnd = 24;  // two checksums, and what ends the file: it can do without them

// One bit of what the first chunk of pixels holds: neither of the two checksums is right then.
Bytes flipped_pixels(Bytes png, Draw& draw) {
  constexpr std::string_view kName = "IDAT";
  const auto name = std::search(png.begin(), png.end(), kName.begin(), kName.end());
  const auto* const length = &*(name - 4);
  const std::size_t bytes = std::size_t{length[2]} << 8 | length[3];
  const auto at = draw.integer(0, static_cast<std::int64_t>(bytes) - 5);
  auto& byte = *(name + 4 + at);
  byte = static_cast<std::uint8_t>(byte ^ (1 << draw.integer(0, 7)));
  return png;
}

// No table is needed until the pixels are.
Bytes bomb() {
  constexpr std::uint8_t kFile[] = {0xff, 0xd8,                                                   // start
                                    0xff, 0xc2, 0, 11, 8, 0xff, 0xdc, 0xff, 0xdc, 1, 1, 0x11, 0,  // progressive, 65500 x 65500
                                    0xff, 0xda, 0, 8,  1, 1,    0,    0,    0,    0};             // a scan
  Bytes bytes(118);
  std::copy(std::begin(kFile), std::end(kFile), bytes.begin());
  return bytes;
}

Bytes with_endless_scans(const Bytes& progressive) {
  std::size_t scan = 0;
  for (std::size_t i = 0; i + 1 < progressive.size(); ++i) {
    if (progressive[i] == 0xff && progressive[i + 1] == 0xda) scan = i;
  }
  const auto first = progressive.begin() + static_cast<std::ptrdiff_t>(scan), end = progressive.end() - 2;
  Bytes bytes(progressive.begin(), end);
  for (int i = 0; i < 400; ++i) bytes.insert(bytes.end(), first, end);
  bytes.insert(bytes.end(), {0xff, 0xd9});
  return bytes;
}

Bytes other_format(Draw& draw) {
  using namespace std::string_view_literals;
  constexpr std::string_view kOthers[] = {"GIF89a\x10\0\x10\0"sv,    "RIFF\x24\0\0\0WEBPVP8 "sv, "%PDF-1.4\n"sv,
                                          "<!DOCTYPE html><html>"sv, "PK\x03\x04\x14\0"sv,       "BM6\0\0\0\0\0"sv,
                                          "II*\0\x08\0\0\0"sv};
  const std::string_view text = kOthers[draw.integer(0, 6)];
  Bytes bytes(text.begin(), text.end());
  for (int i = 0; i < 200; ++i) bytes.push_back(static_cast<std::uint8_t>(draw.integer(0, 255)));
  return bytes;
}

std::size_t part_of(Draw& draw, std::size_t size, double low, double high) {
  return static_cast<std::size_t>(draw.uniform(low, high) * static_cast<double>(size));
}

Bytes broken_jpeg(Breakage kind, Draw& draw) {
  Bytes bytes = jpeg(draw, draw.chance(0.5));
  const std::size_t header = frame_header(bytes);
  switch (kind) {
    case Breakage::truncated_jpeg: return cut_off(bytes, part_of(draw, bytes.size(), 0.01, 0.9));
    case Breakage::flipped_jpeg: return flipped(bytes, draw, static_cast<int>(draw.integer(1, 8)), 2);
    case Breakage::zero_tail:
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), bytes.end(), std::uint8_t{0});
      return bytes;
    case Breakage::modest_bomb: return with_jpeg_size(jpeg(draw, false, testing_jpeg::Kind::grey), 1000);
    case Breakage::twelve_bit: return with_frame(bytes, 0xc1, 12);
    case Breakage::lossless: return with_frame(bytes, 0xc3, 8);
    case Breakage::no_image: {
      Bytes headers = cut_off(bytes, header + 19);
      headers.insert(headers.end(), {0xff, 0xd9});
      return headers;
    }
    default: break;
  }
  Bytes garbage = {0xff, 0xd8};
  for (int i = 0; i < 500; ++i) garbage.push_back(static_cast<std::uint8_t>(draw.integer(0, 255)));
  return garbage;
}

Bytes png_bomb(Draw& draw) {
  Bytes bytes = png(draw);
  for (const std::size_t at : {16U, 20U}) {
    bytes[at] = bytes[at + 1] = 0;
    bytes[at + 2] = 0xea;
    bytes[at + 3] = 0x60;
  }
  return bytes;
}

}  // namespace

const char* to_string(Breakage kind) {
  constexpr const char* kNames[] = {"truncated_jpeg", "truncated_png", "flipped_jpeg", "flipped_png", "empty",
                                    "zeros",          "zero_tail",     "other_format", "text",        "bomb",
                                    "modest_bomb",    "png_bomb",      "twelve_bit",   "lossless",    "endless_scans",
                                    "many_scans",     "cmyk",          "no_image",     "garbage"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Breakage::kCount));
  return kNames[static_cast<int>(kind)];
}

bool may_be_used(Breakage kind) { return kind == Breakage::flipped_jpeg || kind == Breakage::cmyk; }

Bytes make_good(std::uint64_t seed) {
  Draw draw(seed, {}, 1);
  if (draw.chance(0.3)) return png(draw);
  const bool progressive = draw.chance(0.3);
  return jpeg(draw, progressive, draw.chance(0.1) ? testing_jpeg::Kind::grey : testing_jpeg::Kind::rgb);
}

Bytes make_broken(Breakage kind, std::uint64_t seed) {
  Draw draw(seed, {}, 2);
  switch (kind) {
    case Breakage::empty: return {};
    case Breakage::zeros: return Bytes(static_cast<std::size_t>(draw.integer(1, 5000)), 0);
    case Breakage::other_format: return other_format(draw);
    case Breakage::text: {
      constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
      return {kPointer.begin(), kPointer.end()};
    }
    case Breakage::bomb: return bomb();
    case Breakage::many_scans: return testing_jpeg::encode({.height = 40, .width = 50, .many_scans = true});
    case Breakage::cmyk: return jpeg(draw, false, testing_jpeg::Kind::cmyk);
    case Breakage::endless_scans: return with_endless_scans(jpeg(draw, true));
    case Breakage::png_bomb: return png_bomb(draw);
    case Breakage::flipped_png: return flipped_pixels(png(draw), draw);
    case Breakage::truncated_png: {
      const Bytes bytes = png(draw);
      return cut_off(bytes, std::min(part_of(draw, bytes.size(), 0.01, 0.99), bytes.size() - kPngEnd));
    }
    default: return broken_jpeg(kind, draw);
  }
}

}  // namespace millrace::test
