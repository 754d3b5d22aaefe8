// Photos stand upright for every format of their orientation.
#include "orientation.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>

#include "image_file_fixture.h"
#include "jpeg_images_fixture.h"
#include "png_images_fixture.h"

namespace millrace {
namespace {

constexpr int kHeight = 24, kWidth = 40;

Pixels jpeg(int orientation) {
  testing_jpeg::Recipe recipe{.height = kHeight, .width = kWidth};
  recipe.orientation = orientation;
  return encode(recipe);
}

Pixels png(int orientation) {
  testing_png::Recipe recipe{.height = kHeight, .width = kWidth};
  recipe.orientation = orientation;
  recipe.values = random_values(recipe, 1);
  return encode(recipe);
}

// `orientation` is 1 ... 8.
void expect_upright(const Pixels& bytes, int orientation, const Whole& stored) {
  const auto pixel = [&](int row, int column) { return stored.part({row, column, 1, 1}); };
  // By the standard (EXIF 2.3, 4.6.4): the side of the scene for row 0 and column 0 of the file.
  const std::function<Pixels(int, int)> expected[] = {
      [&](int i, int j) { return pixel(i, j); },
      [&](int i, int j) { return pixel(i, kWidth - 1 - j); },
      [&](int i, int j) { return pixel(kHeight - 1 - i, kWidth - 1 - j); },
      [&](int i, int j) { return pixel(kHeight - 1 - i, j); },
      [&](int i, int j) { return pixel(j, i); },
      [&](int i, int j) { return pixel(kHeight - 1 - j, i); },
      [&](int i, int j) { return pixel(kHeight - 1 - j, kWidth - 1 - i); },
      [&](int i, int j) { return pixel(j, kWidth - 1 - i); },
  };
  ImageFile file;
  const Whole upright = decode(file, bytes);
  ASSERT_EQ(upright.shape.height, orientation < 5 ? kHeight : kWidth);
  for (int i = 0; i < upright.shape.height; ++i) {
    for (int j = 0; j < upright.shape.width; ++j)
      ASSERT_EQ(upright.part({i, j, 1, 1}), expected[orientation - 1](i, j)) << orientation << ": " << i << ", " << j;
  }
  expect_parts_of_the_whole(bytes, 3, 30, "orientation " + std::to_string(orientation));
  EXPECT_EQ(decode(file, bytes, 3, false).pixels, stored.pixels) << "not where it is not asked for";
}

TEST(JpegOrientation, IsReadAndApplied) {
  ImageFile file;
  const Whole stored = decode(file, jpeg(0));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(jpeg_orientation(jpeg(orientation)), orientation);
    expect_upright(jpeg(orientation), orientation, stored);
  }
}

// BYTE, SHORT, LONG and their signed variants, in either byte order, after bytes that libjpeg skips.
TEST(JpegOrientation, IsReadWhateverWholeNumberItIs) {
  const Pixels plain = jpeg(0);
  struct Type {
    std::uint8_t type;
    std::size_t bytes;
  };
  for (const Type type : {Type{1, 1}, {3, 2}, {4, 4}, {6, 1}, {8, 2}, {9, 4}}) {
    for (const bool little : {false, true}) {
      Pixels exif = {'E', 'x', 'i', 'f', 0, 0};
      const auto put = [&](std::size_t bytes, std::uint64_t value) {
        for (std::size_t i = 0; i < bytes; ++i)
          exif.push_back(static_cast<std::uint8_t>(value >> 8 * (little ? i : bytes - 1 - i)));
      };
      exif.insert(exif.end(), 2, little ? 'I' : 'M');
      put(2, 42), put(4, 8), put(2, 1), put(2, 0x0112), put(2, type.type), put(4, 1), put(type.bytes, 6), put(8 - type.bytes, 0);
      Pixels bytes = {0xff, 0xd8, 1, 2, 0xff, 0x01, 0xff, 0xff, 0xe1, 0, static_cast<std::uint8_t>(exif.size() + 2)};
      bytes.insert(bytes.end(), exif.begin(), exif.end());
      bytes.insert(bytes.end(), plain.begin() + 2, plain.end());
      EXPECT_EQ(jpeg_orientation(bytes), 6) << "type " << int{type.type} << (little ? ", little-endian" : ", big-endian");
      ImageFile file;
      EXPECT_EQ(file.open(bytes, 3, {}, true).height, kWidth);
    }
  }
}

TEST(JpegOrientation, NonsenseIsUpright) {
  testing_jpeg::Recipe recipe;
  recipe.orientation = 6;
  const Pixels bytes = encode(recipe);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Pixels cut_off(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const int found = jpeg_orientation(cut_off);
    EXPECT_TRUE(found == 1 || found == 6);
  }
  Draw draw(1, {}, 1);
  for (int round = 0; round < 5000; ++round) {
    Pixels damaged(bytes.begin(), bytes.begin() + 70);
    damaged[static_cast<std::size_t>(draw.integer(2, 69))] = static_cast<std::uint8_t>(draw.integer(0, 255));
    const int found = jpeg_orientation(damaged);
    ASSERT_TRUE(found >= 1 && found <= 8);
  }
}

TEST(PngOrientation, IsReadAndApplied) {
  ImageFile file;
  const Whole stored = decode(file, png(0));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(png_orientation(png(orientation)), orientation);
    expect_upright(png(orientation), orientation, stored);
  }
}

TEST(PngOrientation, MayStandBehindThePixels) {
  constexpr std::size_t kChunk = 12 + 26, kEnd = 12;  // eXIf, IEND
  ImageFile file;
  const Whole stored = decode(file, png(0));
  Pixels bytes = png(6);
  const std::string_view name = "eXIf";
  const auto chunk = std::search(bytes.begin(), bytes.end(), name.begin(), name.end()) - 4;
  std::rotate(chunk, chunk + kChunk, bytes.end() - kEnd);
  expect_upright(bytes, 6, stored);
}

// A PNG with an extra chunk after its header.
Pixels with_chunk(const Pixels& plain, const std::string& name, const std::string& content) {
  const std::string chunk = name + content;
  const auto number = [](unsigned long value) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(value >> shift));
    return bytes;
  };
  const unsigned long check = crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<unsigned>(chunk.size()));
  const std::string all = number(content.size()) + chunk + number(check);
  Pixels made = plain;
  made.insert(made.begin() + 8 + 25, all.begin(), all.end());
  return made;
}

std::string packed(const std::string& text) {
  std::string bytes(compressBound(text.size()), '\0');
  unsigned long size = bytes.size();
  compress(reinterpret_cast<Bytef*>(bytes.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return bytes.substr(0, size);
}

TEST(PngOrientation, IsReadOfATextAsExiv2AndImageMagickWriteIt) {
  const std::string name = "Raw profile type ", zero(1, '\0'), tag = "49492a00080000000100120103000100000006000000\n00000000\n",
                    exif = "\nexif\n      32\n457869660000" + tag, bare = "\nexif\n      26\n" + tag,
                    app1 = "\nAPP1\n      32\n457869660000" + tag;
  const Pixels plain = png(0);
  ImageFile file;
  const Whole stored = decode(file, plain);
  expect_upright(with_chunk(plain, "zTXt", name + "exif" + zero + zero + packed(exif)), 6, stored);
  expect_upright(with_chunk(plain, "tEXt", name + "exif" + zero + bare), 6, stored);
  expect_upright(with_chunk(plain, "zTXt", name + "APP1" + zero + zero + packed(app1)), 6, stored);
  EXPECT_EQ(png_orientation(with_chunk(plain, "zTXt", name + "iptc" + zero + zero + packed(exif))), 1);
  EXPECT_EQ(png_orientation(with_chunk(plain, "zTXt", name + "exif" + zero + zero + exif)), 1) << "not packed";
  EXPECT_EQ(png_orientation(with_chunk(png(3), "tEXt", name + "exif" + zero + exif)), 3) << "the chunk eXIf counts";
  for (std::size_t size = 0; size < bare.size(); ++size) {
    const int found = png_orientation(with_chunk(plain, "tEXt", name + "exif" + zero + bare.substr(0, size)));
    EXPECT_TRUE(found == 1 || found == 6) << size;
  }
}

// As in Pillow: EXIF's tag counts if present, whatever its value, and XMP's only otherwise.
TEST(Orientation, IsThatOfXmpWhereExifHasNone) {
  const auto big = [](std::size_t bytes, std::size_t value) {
    Pixels made;
    for (std::size_t i = bytes; i > 0; --i) made.push_back(static_cast<std::uint8_t>(value >> 8 * (i - 1)));
    return made;
  };
  const auto join = [](std::initializer_list<Pixels> parts) {
    Pixels all;
    for (const Pixels& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const auto text = [](std::string_view from) { return Pixels(from.begin(), from.end()); };
  const auto jpeg_with = [&](int exif, std::string_view xmp) {
    const Pixels plain = jpeg(exif), name = text(std::string_view("http://ns.adobe.com/xap/1.0/\0", 29));
    return join(
        {{0xff, 0xd8, 0xff, 0xe1}, big(2, name.size() + xmp.size() + 2), name, text(xmp), {plain.begin() + 2, plain.end()}});
  };
  const auto png_with = [&](int exif, std::string_view xmp) {
    const Pixels plain = png(exif), name = text(std::string_view("XML:com.adobe.xmp\0\0\0\0\0", 22));
    const Pixels chunk = join({text("iTXt"), name, text(xmp)});
    const Pixels check = big(4, crc32(0, chunk.data(), static_cast<unsigned>(chunk.size())));
    const auto behind_header = plain.begin() + 8 + 25;
    return join({{plain.begin(), behind_header}, big(4, chunk.size() - 4), chunk, check, {behind_header, plain.end()}});
  };
  for (const auto& [exif, xmp, expected] : std::initializer_list<std::tuple<int, const char*, int>>{
           {0, "<rdf:Description tiff:Orientation=\"6\"/>", 6},
           {0, "tiff:Orientation, <tiff:Orientation>8</tiff:Orientation>", 8},
           {3, "tiff:Orientation=\"6\"", 3},
           {0, "tiff:Orientation=\"9\" tiff:Orientation=\"6\"", 1},
           {0, "tiff:Orientation=\"", 1},
           {0, "tiff:OrientationIs=\"6\"", 1}}) {
    EXPECT_EQ(jpeg_orientation(jpeg_with(exif, xmp)), expected) << xmp;
    EXPECT_EQ(png_orientation(png_with(exif, xmp)), expected) << xmp;
  }
  ImageFile file;
  EXPECT_EQ(decode(file, jpeg_with(0, "tiff:Orientation=\"6\"")).shape.height, kWidth);
  EXPECT_EQ(decode(file, png_with(0, "tiff:Orientation=\"6\"")).shape.height, kWidth);
}

TEST(PngOrientation, NonsenseIsUpright) {
  const Pixels bytes = png(6);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Pixels cut_off(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const int found = png_orientation(cut_off);
    EXPECT_TRUE(found == 1 || found == 6);
  }
  Draw draw(1, {}, 1);
  for (int round = 0; round < 5000; ++round) {
    Pixels damaged(bytes.begin(), bytes.begin() + 100);
    damaged[static_cast<std::size_t>(draw.integer(8, 99))] = static_cast<std::uint8_t>(draw.integer(0, 255));
    const int found = png_orientation(damaged);
    ASSERT_TRUE(found >= 1 && found <= 8);
  }
}

}  // namespace
}  // namespace millrace
