// Parts of images equal those of the whole image, and every kind of PNG is read correctly.
#include "image_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "image_file_fixture.h"
#include "jpeg_images_fixture.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "png_images_fixture.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using testing_png::Colour;

TEST(JpegParts, AreBitForBitThoseOfTheWholeImage) {
  struct Sampling {
    int horizontal, vertical, blue_horizontal = 1, blue_vertical = 1;
  };
  for (const Sampling& sampling : {Sampling{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {1, 1, 2, 4}}) {
    for (const bool progressive : {false, true}) {
      for (const unsigned restart : {0U, 5U}) {
        testing_jpeg::Recipe recipe{.height = 75, .width = 117, .progressive = progressive};
        recipe.horizontal = sampling.horizontal;
        recipe.vertical = sampling.vertical;
        recipe.blue_horizontal = sampling.blue_horizontal;
        recipe.blue_vertical = sampling.blue_vertical;
        recipe.restart = restart;
        recipe.pixels = testing_jpeg::noise(75, 117, 3, 5);
        const std::string what = std::to_string(sampling.horizontal) + "x" + std::to_string(sampling.vertical) +
                                 (progressive ? " progressive" : " baseline");
        expect_parts_of_the_whole(encode(recipe), 3, 60, what);
      }
    }
  }
}

// Every sampling that libjpeg supports, including narrow parts, which libjpeg-turbo handles differently.
TEST(JpegParts, AreBitForBitThoseOfTheReducedImage) {
  JpegDecoder decoder;
  ByteBuffer buffer;
  const auto part = [&](const Pixels& bytes, const Region& region, int reduction) {
    decoder.read_header(bytes, 3, {});
    const PixelRows rows = decoder.decode_part(region, reduction, buffer);
    Pixels pixels;
    for (int row = 0; row < region.height; ++row) {
      const std::uint8_t* first = rows.data + static_cast<std::size_t>(row) * rows.stride;
      pixels.insert(pixels.end(), first, first + 3 * region.width);
    }
    return pixels;
  };
  for (int factors = 0; factors < 64; ++factors) {
    testing_jpeg::Recipe recipe{.height = 24, .width = 50};
    recipe.horizontal = factors % 4 + 1;
    recipe.vertical = factors / 4 % 2 + 1;
    recipe.blue_horizontal = factors / 8 % 4 + 1;
    recipe.blue_vertical = factors / 32 + 1;
    const bool is_read = recipe.horizontal % recipe.blue_horizontal == 0 && recipe.vertical % recipe.blue_vertical == 0 &&
                         recipe.horizontal * recipe.vertical + recipe.blue_horizontal * recipe.blue_vertical < 10;
    if (!is_read) continue;
    recipe.pixels = testing_jpeg::noise(24, 50, 3, 5);
    const Pixels bytes = encode(recipe);
    for (const int reduction : {1, 2, 4, 8}) {
      const ImageShape shape{JpegDecoder::reduced(24, reduction), JpegDecoder::reduced(50, reduction), 3};
      const Whole whole{shape, part(bytes, {0, 0, shape.height, shape.width}, reduction)};
      for (const int width : {1, 2, 3, 7, 20}) {
        for (int left = 0; left + width <= shape.width; ++left) {
          const Region region{shape.height / 3, left, shape.height - shape.height / 3, width};
          ASSERT_EQ(part(bytes, region, reduction), whole.part(region))
              << recipe.horizontal << "x" << recipe.vertical << " and " << recipe.blue_horizontal << "x" << recipe.blue_vertical
              << ", reduced by " << reduction << ": " << width << " columns from " << left << " on";
        }
      }
    }
  }
}

// JpegDecoder does not leave all of such files to libjpeg.
TEST(JpegParts, OfLargerFilesAsWell) {
  for (const int sampling : {1, 2}) {
    for (const int channels : {1, 3}) {
      testing_jpeg::Recipe recipe{.height = 190, .width = 245};
      recipe.horizontal = recipe.vertical = sampling;
      recipe.pixels = testing_jpeg::noise(190, 245, 3, 5);
      const Pixels bytes = encode(recipe);
      ASSERT_GT(bytes.size(), 20'000U);
      expect_parts_of_the_whole(bytes, channels, 60, "sampling " + std::to_string(sampling));
    }
  }
}

TEST(JpegParts, OfGreyAndInksAsWell) {
  for (const auto kind : {testing_jpeg::Kind::grey, testing_jpeg::Kind::cmyk, testing_jpeg::Kind::ycck}) {
    for (const int channels : {1, 3}) {
      testing_jpeg::Recipe recipe{.height = 41, .width = 60, .kind = kind};
      recipe.pixels = testing_jpeg::noise(41, 60, components(kind), 5);
      expect_parts_of_the_whole(encode(recipe), channels, 40, "kind " + std::to_string(static_cast<int>(kind)));
    }
  }
}

TEST(JpegParts, AreResampledAsPartsOfTheWhole) {
  testing_jpeg::Recipe recipe{.height = 90, .width = 120};
  recipe.pixels = testing_jpeg::noise(90, 120, 3, 5);
  const Pixels bytes = encode(recipe);
  ImageFile file;
  Whole whole = decode(file, bytes);
  Draw draw(7, {}, 7);
  for (int round = 0; round < 50; ++round) {
    const Region region = some_region(draw, whole.shape);
    file.open(bytes, 3, {}, true);
    // no side is halved, so that the image is decoded at its full size
    const Excerpt excerpt{region, box_of(region), region.height * 2 / 3 + 1, region.width * 3 / 2, true};
    Pixels part = whole.part(region), expected(static_cast<std::size_t>(excerpt.height * excerpt.width * 3));
    Resampler().resize({part.data(), {region.height, region.width, 3}}, {excerpt.height, excerpt.width, 3}, expected.data());
    ASSERT_EQ(render(file, excerpt, 3), expected);
  }
}

double distance(const Pixels& a, const Pixels& b) {
  if (a.size() != b.size()) return 255;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

TEST(JpegParts, DecodedAtAPartOfTheirSizeShowTheSamePlace) {
  // A smooth picture, so that a shift of half a pixel would show.
  testing_jpeg::Recipe recipe{.height = 300, .width = 420};
  for (const int orientation : {1, 6}) {
    recipe.orientation = orientation;
    const Pixels bytes = encode(recipe);
    ImageFile file;
    const Whole whole = decode(file, bytes);
    for (const int to : {100, 60, 33, 17}) {
      const Region region{11, 7, 259, 281};
      const Excerpt excerpt{region, box_of(region), to, to, true};
      file.open(bytes, 3, {}, true);
      Pixels part = whole.part(region), expected(static_cast<std::size_t>(to * to * 3));
      Resampler().resize({part.data(), {region.height, region.width, 3}}, {to, to, 3}, expected.data());
      EXPECT_LT(distance(render(file, excerpt, 3), expected), 1.0) << to << ", orientation " << orientation;
    }
  }
}

// A PNG's pixels, by the definition of its kind.
Pixels expected_pixels(const testing_png::Recipe& recipe, int channels) {
  Pixels out;
  const int stored = testing_png::channels(recipe.colour);
  const int most = (1 << recipe.depth) - 1;
  for (std::size_t i = 0; i < recipe.values.size(); i += static_cast<std::size_t>(stored)) {
    std::uint8_t rgb[3];
    for (int c = 0; c < 3; ++c) {
      const int value = recipe.values[i + static_cast<std::size_t>(stored >= 3 ? c : 0)];
      rgb[c] = recipe.colour == Colour::palette ? recipe.palette[static_cast<std::size_t>(3 * value + c)]
                                                : static_cast<std::uint8_t>((value * 255 + most / 2) / most);
    }
    if (channels == 3) out.insert(out.end(), rgb, rgb + 3);
    const bool grey = stored < 3 && recipe.colour != Colour::palette;
    if (channels == 1)
      out.push_back(grey ? rgb[0]
                         : static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16));
  }
  return out;
}

std::vector<testing_png::Recipe> png_recipes() {
  std::vector<testing_png::Recipe> recipes;
  const auto add = [&](Colour colour, int depth) {
    for (const bool interlaced : {false, true}) {
      testing_png::Recipe recipe{.height = 21, .width = 35, .colour = colour, .depth = depth, .interlaced = interlaced};
      recipe.text = interlaced;
      recipe.values = random_values(recipe, 3);
      if (colour == Colour::palette) {
        for (int i = 0; i < 3 << depth; ++i) recipe.palette.push_back(static_cast<std::uint8_t>(i * 37 + i / 5));
        recipe.transparent = 1;
      }
      recipes.push_back(std::move(recipe));
    }
  };
  for (const int depth : {1, 2, 4, 8, 16}) add(Colour::grey, depth);
  for (const int depth : {1, 2, 4, 8}) add(Colour::palette, depth);
  for (const Colour colour : {Colour::rgb, Colour::grey_alpha, Colour::rgba}) {
    for (const int depth : {8, 16}) add(colour, depth);
  }
  return recipes;
}

TEST(Png, EveryKindIsReadAsItIs) {
  ImageFile file;
  for (const testing_png::Recipe& recipe : png_recipes()) {
    for (const int channels : {1, 3}) {
      const Pixels bytes = encode(recipe), expected = expected_pixels(recipe, channels);
      const std::string what = "colour " + std::to_string(static_cast<int>(recipe.colour)) + ", depth " +
                               std::to_string(recipe.depth) + (recipe.interlaced ? ", interlaced" : "");
      const Whole whole = decode(file, bytes, channels);
      if (recipe.depth < 16) {
        ASSERT_EQ(whole.pixels, expected) << what;
      } else {  // libpng's rounding and ours differ where a value is half way
        for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(whole.pixels[i], expected[i], 1) << what;
      }
      expect_parts_of_the_whole(bytes, channels, 20, what);
    }
  }
}

// At any depth: optimisers store a mask of 0 and 255 in one bit.
TEST(Png, LabelsKeepTheirValues) {
  ImageFile file;
  for (const testing_png::Recipe& recipe : png_recipes()) {
    const Pixels bytes = encode(recipe);
    const bool fits = recipe.depth <= 8 && (recipe.colour == Colour::grey || recipe.colour == Colour::palette);
    if (recipe.colour == Colour::rgb || recipe.colour == Colour::rgba || (recipe.colour == Colour::grey && recipe.depth > 8))
      continue;
    if (!fits) {
      EXPECT_THROW(file.open_labels(bytes, {}), Error);
      continue;
    }
    const ImageShape shape = file.open_labels(bytes, {});
    ASSERT_EQ(shape, (ImageShape{21, 35, 1}));
    const Whole whole{shape, recipe.colour == Colour::palette ? Pixels(recipe.values.begin(), recipe.values.end())
                                                              : expected_pixels(recipe, 1)};
    EXPECT_EQ(render(file, cut({0, 0, 21, 35}), 1), whole.pixels) << recipe.depth;
    file.open_labels(bytes, {});
    EXPECT_EQ(render(file, cut({3, 5, 11, 17}), 1), whole.part({3, 5, 11, 17}));
  }
}

std::string error_of(const std::function<void()>& work) {
  return testkit::error_of(ErrorKind::content, [&] { work(); }).message();
}

testing_png::Recipe with_values(testing_png::Recipe recipe, std::vector<std::uint16_t> values) {
  recipe.values = std::move(values);
  return recipe;
}

// Saved by programs that support neither palettes nor 8 bits.
TEST(Png, LabelsOf16BitsKeepValuesBelow256) {
  ImageFile file;
  for (const bool interlaced : {false, true}) {
    const testing_png::Recipe recipe{.height = 2, .width = 3, .colour = Colour::grey, .depth = 16, .interlaced = interlaced};
    const Pixels good = encode(with_values(recipe, {0, 1, 255, 7, 7, 2}));
    file.open_labels(good, {});
    EXPECT_EQ(render(file, cut({0, 0, 2, 3}), 1), (Pixels{0, 1, 255, 7, 7, 2}));
    file.open_labels(good, {});
    EXPECT_EQ(render(file, cut({1, 1, 1, 2}), 1), (Pixels{7, 2}));
    const Pixels large = encode(with_values(recipe, {0, 1, 255, 7, 257, 2}));
    file.open_labels(large, {});
    EXPECT_EQ(error_of([&] {
                render(file, cut({0, 0, 2, 3}), 1);
              }),
              "a label image of 16 bits has the value 257: those of classes are at most 255");
  }
}

TEST(Png, LabelsInRgbAreTheColoursOfClasses) {
  ImageFile file;
  const LabelColours colours{{{0x0000ff, 4}, {0x800000, 2}}, 9};
  for (const Colour colour : {Colour::rgb, Colour::rgba}) {
    std::vector<std::uint16_t> values;
    for (const std::uint32_t rgb : {0x800000U, 0x0000ffU, 0x0000ffU, 0x000000U}) {
      for (const unsigned shift : {16U, 8U, 0U}) values.push_back(static_cast<std::uint16_t>(rgb >> shift & 0xffU));
      if (colour == Colour::rgba) values.push_back(1);
    }
    const Pixels bytes = encode(with_values({.height = 2, .width = 2, .colour = colour}, values));
    file.open_labels(bytes, {}, true, &colours);
    EXPECT_EQ(render(file, cut({0, 0, 2, 2}), 1), (Pixels{2, 4, 4, 9}));
    file.open_labels(bytes, {});
    EXPECT_EQ(error_of([&] {
                render(file, cut({0, 0, 2, 2}), 1);
              }),
              "a label image in RGB has the colour #800000: name the class of each colour, as in classes = [{ name = \"road\", "
              "colour = \"#800000\" }], or save it as a grey or palette PNG, whose values are classes");
  }
  const Pixels grey = encode(with_values({.height = 1, .width = 2}, {3, 3, 3, 255, 255, 255}));
  file.open_labels(grey, {});
  EXPECT_EQ(render(file, cut({0, 0, 1, 2}), 1), (Pixels{3, 255})) << "grey that is stored as RGB";
}

// One rule for all palettes of a set: an index depends on its file, a colour is a class.
TEST(Png, LabelsWithAPaletteAreTheColoursOfClasses) {
  ImageFile file;
  const LabelColours colours{{{0x0000ff, 4}, {0x800000, 2}}, 9, true};
  const LabelColours by_index{colours.values, 9, false};
  for (const int depth : {1, 2, 4, 8}) {
    for (const bool interlaced : {false, true}) {
      testing_png::Recipe recipe{.height = 2, .width = 2, .colour = Colour::palette, .depth = depth, .interlaced = interlaced};
      recipe.palette = {0, 0, 255, 128, 0, 0};
      const Pixels blue_first = encode(with_values(recipe, {0, 1, 1, 0}));
      file.open_labels(blue_first, {}, true, &colours);
      EXPECT_EQ(render(file, cut({0, 0, 2, 2}), 1), (Pixels{4, 2, 2, 4})) << depth;
      file.open_labels(blue_first, {}, true, &colours);
      EXPECT_EQ(render(file, cut({1, 1, 1, 1}), 1), (Pixels{4})) << depth;
      file.open_labels(blue_first, {}, true, &by_index);
      EXPECT_EQ(render(file, cut({0, 0, 2, 2}), 1), (Pixels{0, 1, 1, 0})) << depth;
    }
  }
  const Pixels other = encode(
      with_values({.height = 1, .width = 3, .colour = Colour::palette, .depth = 2, .palette = {128, 0, 0, 1, 2, 3}}, {0, 1, 3}));
  file.open_labels(other, {}, true, &colours);
  EXPECT_EQ(render(file, cut({0, 0, 1, 3}), 1), (Pixels{2, 9, 9})) << "of no class, and beyond the palette";
}

TEST(Png, LabelsOfOtherKindsAreRefusedByName) {
  ImageFile file;
  const auto refusal = [&](Colour colour, int depth) {
    testing_png::Recipe recipe{.colour = colour, .depth = depth};
    recipe.values = random_values(recipe, 1);
    const Pixels bytes = encode(recipe);
    return error_of([&] { file.open_labels(bytes, {}); });
  };
  const std::string rest = ": save it as a grey or palette PNG, whose values are classes";
  EXPECT_MESSAGE(refusal(Colour::rgb, 16));
  EXPECT_MESSAGE(refusal(Colour::grey_alpha, 8));
  const Pixels jpeg = testing_jpeg::encode({});
  EXPECT_MESSAGE(error_of([&] { file.open_labels(jpeg, {}); }));
}

TEST(Png, EveryTruncationAndEveryFlippedBitIsFoundOrChangesNothing) {
  ImageFile file;
  for (const bool interlaced : {false, true}) {
    testing_png::Recipe recipe{.height = 9, .width = 12, .interlaced = interlaced, .text = true};
    recipe.values = random_values(recipe, 3);
    const Pixels good = encode(recipe), expected = expected_pixels(recipe, 3);
    const auto expect = [&](const Pixels& bytes, std::size_t at) {
      Pixels pixels;
      const std::string error = error_of([&] { pixels = decode(file, bytes).pixels; });
      if (error == "nothing was thrown") {
        ASSERT_EQ(pixels, expected) << at;
      }
    };
    for (std::size_t size = 0; size < good.size(); ++size)
      expect({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, size);
    for (std::size_t at = 0; at < 8 * good.size(); ++at) {
      Pixels damaged = good;
      damaged[at / 8] = static_cast<std::uint8_t>(damaged[at / 8] ^ (1U << at % 8));
      expect(damaged, at);
    }
    EXPECT_EQ(decode(file, good).pixels, expected) << "and the decoder still works";
  }
}

Pixels with_size(Pixels png, std::uint32_t height, std::uint32_t width) {
  for (std::size_t i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<std::uint8_t>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<std::uint8_t>(height >> (24 - 8 * i));
  }
  return png;
}

TEST(Limits, HoldBeforeAnythingIsAllocated) {
  ImageFile file;
  testing_png::Recipe recipe;
  recipe.values = random_values(recipe, 3);
  const Pixels png = encode(recipe), jpeg = testing_jpeg::encode({});
  EXPECT_MESSAGE(error_of([&] { decode(file, with_size(png, 65000, 65000)); }));
  EXPECT_MESSAGE(error_of([&] { decode(file, with_size(png, 2, 30'000'000)); }));
  EXPECT_NE(error_of([&] { decode(file, with_size(png, 8000, 8000)); }).find("cannot hold 8000 x 8000 pixels"),
            std::string::npos);
  EXPECT_NE(error_of([&] { decode(file, with_size(png, 0x80000000, 0xffffffff)); }), "nothing was thrown");
  DecodeLimits limits;
  limits.max_bytes = 100;
  EXPECT_EQ(error_of([&] { file.open(jpeg, 3, limits, true); }),
            std::to_string(jpeg.size()) + " bytes are more than `max_bytes` (100)");
  Pixels bomb = jpeg;
  for (std::size_t i = 0; i + 8 < bomb.size(); ++i) {
    if (bomb[i] == 0xff && bomb[i + 1] == 0xc0) {
      bomb[i + 5] = bomb[i + 7] = 0x1f;
      break;
    }
  }
  EXPECT_NE(error_of([&] { decode(file, bomb); }).find("cannot hold"), std::string::npos);
}

TEST(DecodedPixels, GoTheSameWay) {
  ImageFile file;
  const Pixels grey = testing_jpeg::noise(10, 14, 1, 1), rgb = testing_jpeg::noise(10, 14, 3, 1);
  file.open_pixels(grey, {10, 14, 1}, 3);
  Pixels three;
  for (const std::uint8_t value : grey) three.insert(three.end(), 3, value);
  EXPECT_EQ(render(file, cut({0, 0, 10, 14}), 3), three);
  file.open_pixels(rgb, {10, 14, 3}, 3);
  EXPECT_EQ(render(file, cut({2, 3, 5, 6}), 3), (Whole{{10, 14, 3}, rgb}.part({2, 3, 5, 6})));
  file.open_pixels(rgb, {10, 14, 3}, 1);
  Pixels luminance(140);
  to_luminance(rgb.data(), 140, luminance.data());
  EXPECT_EQ(render(file, cut({2, 3, 5, 6}), 1), (Whole{{10, 14, 1}, luminance}.part({2, 3, 5, 6})));
  EXPECT_MESSAGE(error_of([&] { file.open_pixels(rgb, {10, 15, 3}, 3); }));
}

}  // namespace
}  // namespace millrace
