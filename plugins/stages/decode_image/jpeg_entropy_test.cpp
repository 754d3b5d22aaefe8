// JpegEntropy decodes the same as libjpeg's own decoder, and files that it refuses end as they do there.
#include "jpeg_entropy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jpeg_decoder.h"
#include "jpeg_images_fixture.h"
#include "jpeg_reference.h"
#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing_jpeg::Libjpeg;
using testing_jpeg::Outcome;
using testing_jpeg::Recipe;

// Noise over the whole range: long codes, and blocks that end only with their last coefficient.
Bytes wild(int height, int width, int channels, std::uint64_t seed) {
  Bytes pixels(static_cast<std::size_t>(height * width * channels));
  Draw draw(seed, {}, 0);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(draw.integer(0, 255));
  return pixels;
}

bool can_take_over() {
  JpegEntropy entropy;
  return Libjpeg(&entropy).decode(encode(Recipe{}), std::size_t{16} * 16 * 3).took_over;
}

class JpegEntropyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_take_over()) GTEST_SKIP() << "jpegint.h of libjpeg-turbo is not installed";
  }
};

TEST_F(JpegEntropyTest, GivesTheBytesOfLibjpeg) {
  struct Sampling {
    int horizontal, vertical;
  };
  constexpr int kRows = 83, kColumns = 131;
  JpegEntropy entropy;  // one for all: tables change from image to image
  for (const auto kind : {testing_jpeg::Kind::grey, testing_jpeg::Kind::rgb, testing_jpeg::Kind::ycck}) {
    const int channels = components(kind);
    for (const Sampling& sampling : {Sampling{1, 1}, {2, 1}, {2, 2}, {1, 2}}) {
      for (const int quality : {20, 75, 95, 100}) {
        for (const bool optimized : {false, true}) {
          for (const bool is_wild : {false, true}) {
            Recipe recipe{.height = kRows, .width = kColumns, .kind = kind, .quality = quality};
            recipe.horizontal = sampling.horizontal;
            recipe.vertical = sampling.vertical;
            recipe.optimized = optimized;
            recipe.pixels = is_wild ? wild(kRows, kColumns, channels, 3) : testing_jpeg::noise(kRows, kColumns, channels, 3);
            const Bytes bytes = encode(recipe);
            const std::size_t size = recipe.pixels.size();
            const Outcome own = Libjpeg(&entropy).decode(bytes, size), theirs = Libjpeg().decode(bytes, size);
            ASSERT_TRUE(own.took_over);
            ASSERT_EQ(own.error, "");
            ASSERT_EQ(own.pixels, theirs.pixels)
                << "quality " << quality << ", " << channels << " channels, " << sampling.horizontal << " x " << sampling.vertical
                << (optimized ? ", optimized" : "");
          }
        }
      }
    }
  }
}

TEST_F(JpegEntropyTest, LeavesToLibjpegWhatIsNotPlain) {
  JpegEntropy entropy;
  for (const bool progressive : {false, true}) {
    Recipe recipe{.height = 40, .width = 40, .progressive = progressive};
    recipe.restart = progressive ? 0 : 4;
    const Outcome outcome = Libjpeg(&entropy).decode(encode(recipe), std::size_t{40} * 40 * 3);
    EXPECT_FALSE(outcome.took_over);
    EXPECT_EQ(outcome.error, "");
  }
}

std::size_t frame_header(const Bytes& jpeg) {
  std::size_t at = 2;
  while (jpeg[at + 1] != 0xc0) at += std::size_t{2} + jpeg[at + 2] * 256U + jpeg[at + 3];
  return at;
}

TEST_F(JpegEntropyTest, RefusesCodesTooManyOrTooFew) {
  Recipe recipe{.height = 64, .width = 64};
  recipe.pixels = testing_jpeg::noise(64, 64, 3, 1);
  const Bytes sound = encode(recipe);
  const std::size_t size = recipe.pixels.size();
  JpegEntropy entropy;
  ASSERT_EQ(Libjpeg(&entropy).decode(sound, size).error, "");
  Bytes behind = sound;
  behind.insert(behind.end() - 2, {7, 8, 9});
  const Outcome outcome = Libjpeg(&entropy).decode(behind, size);
  EXPECT_EQ(outcome.error, "") << "bytes that are no codes";
  EXPECT_EQ(outcome.pixels, Libjpeg().decode(sound, size).pixels);
  Bytes more = sound;
  more[frame_header(more) + 6] = 48;  // rows, of 64
  EXPECT_EQ(Libjpeg(&entropy).decode(more, size).error, "refused");
  Bytes less = sound;
  less.erase(less.end() - 12, less.end() - 2);
  EXPECT_EQ(Libjpeg(&entropy).decode(less, size).error, "refused");
  const Bytes no_end(sound.begin(), sound.end() - 2);
  EXPECT_FALSE(Libjpeg(&entropy).decode(no_end, size).took_over);
}

// These files are large enough for the decoder to try it.
TEST(JpegDamage, EndsAsItDoesInLibjpegWhereItChangesPixels) {
  constexpr int kSide = 160;
  Recipe recipe{.height = kSide, .width = kSide};
  recipe.horizontal = recipe.vertical = 1;
  recipe.pixels = testing_jpeg::noise(kSide, kSide, 3, 2);
  const Bytes sound = encode(recipe);
  ASSERT_GT(sound.size(), 20'000U);
  const Bytes whole = Libjpeg().decode(sound, recipe.pixels.size()).pixels;
  JpegDecoder decoder;
  Draw draw(11, {}, 0);
  int errors = 0, decoded = 0;
  for (int round = 0; round < 400; ++round) {
    Bytes bytes = sound;
    const auto at = static_cast<std::size_t>(draw.integer(700, static_cast<std::int64_t>(bytes.size()) - 1));
    if (round % 4 == 0) {
      bytes.resize(at);
    } else if (round % 4 == 1) {
      bytes[at] ^= static_cast<std::uint8_t>(1 << draw.integer(0, 7));
    } else {
      for (std::size_t i = at; i < std::min(bytes.size(), at + 8); ++i)
        bytes[i] = static_cast<std::uint8_t>(draw.integer(0, 255));
    }
    const Outcome expected = Libjpeg().decode(bytes, recipe.pixels.size());
    Bytes pixels(recipe.pixels.size());
    try {
      decoder.read_header(bytes, 3, {});
      decoder.decode(pixels.data());
      if (expected.error.empty()) {
        ASSERT_EQ(pixels, expected.pixels) << "round " << round;
      } else {
        ASSERT_EQ(pixels, whole) << "round " << round << ": " << expected.error;
      }
      ++decoded;
    } catch (const Error& error) {
      ASSERT_NE(expected.error, "") << "round " << round << ": " << error.what();
      ASSERT_NE(std::string(error.what()).find(expected.error), std::string::npos) << error.what() << "; " << expected.error;
      ++errors;
    }
  }
  EXPECT_GT(errors, 100);
  EXPECT_GT(decoded, 20);
}

// A file without its segments of this kind.
Bytes without(const Bytes& file, std::uint8_t marker) {
  Bytes left(file.begin(), file.begin() + 2);
  for (std::size_t at = 2; at + 4 <= file.size();) {
    const std::size_t length = file[at + 1] == 0xda ? file.size() - at : std::size_t{2} + file[at + 2] * 256U + file[at + 3];
    if (file[at + 1] != marker)
      left.insert(left.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                  file.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  return left;
}

// libjpeg keeps the tables of one file for the next, which may lack its own: broken, or a frame of a video whose Huffman tables
// are the standard ones. Found by fuzzing.
TEST(JpegDecoder, UsesNoTablesOfTheFileBefore) {
  constexpr std::uint8_t kQuantisation = 0xdb, kHuffman = 0xc4;
  constexpr std::size_t kSize = std::size_t{48} * 48 * 3;
  const auto decode = [](JpegDecoder& decoder, const Bytes& bytes) {
    Outcome outcome;
    try {
      decoder.read_header(bytes, 3, {});
      outcome.pixels.resize(kSize);
      decoder.decode(outcome.pixels.data());
    } catch (const Error& error) {
      outcome.pixels.clear();
      outcome.error = error.what();
    }
    return outcome;
  };
  for (const bool progressive : {false, true}) {
    Recipe first{.height = 48, .width = 48, .progressive = progressive, .quality = 30, .optimized = true};
    Recipe second{.height = 48, .width = 48, .progressive = progressive, .quality = 90};
    first.pixels = second.pixels = testing_jpeg::noise(48, 48, 3, 5);
    for (const std::uint8_t missing : {kQuantisation, kHuffman}) {
      const Bytes file = without(encode(second), missing);
      JpegDecoder fresh, used;
      const Outcome expected = decode(fresh, file);
      ASSERT_EQ(decode(used, encode(first)).error, "");
      const Outcome got = decode(used, file);
      EXPECT_EQ(got.error, expected.error);
      EXPECT_EQ(got.pixels, expected.pixels);
      if (missing == kQuantisation) {
        EXPECT_NE(got.error.find("Quantization table 0x00 was not defined"), std::string::npos) << got.error;
      } else if (!progressive) {
        EXPECT_EQ(got.pixels, decode(fresh, encode(second)).pixels) << "the standard tables";
      }
      EXPECT_EQ(decode(used, encode(first)).error, "");
    }
  }
}

}  // namespace
}  // namespace millrace
