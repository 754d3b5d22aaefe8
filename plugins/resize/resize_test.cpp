#include "resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "millrace/error.h"
#include "millrace/resample.h"
#include "testkit/harness.h"

namespace millrace {
namespace {

std::vector<std::uint8_t> pattern(ImageShape shape) {
  std::vector<std::uint8_t> pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>((i * i * 7 + i * 13 + (i >> 3) * 5) % 251);
  return pixels;
}

std::vector<std::uint8_t> resized(std::vector<std::uint8_t> pixels, ImageShape from, ImageShape to) {
  Resampler resampler;
  std::vector<std::uint8_t> out(to.bytes());
  resampler.resize({pixels.data(), from}, to, out.data());
  return out;
}

struct PillowCase {
  ImageShape from;
  std::int32_t height, width;
  std::uint32_t checksum;
};

// Printed by pillow_reference.py with Pillow 9.4.0.
constexpr PillowCase kPillow[] = {
    {{32, 32, 3}, 17, 40, 0xb3a172bc}, {{37, 53, 3}, 12, 9, 0x7258bd2b},  {{480, 360, 3}, 224, 224, 0x6421b927},
    {{8, 8, 1}, 64, 3, 0x15a86e0e},    {{1, 9, 1}, 5, 1, 0x0633352d},     {{20, 30, 3}, 20, 11, 0x481af681},
    {{20, 30, 3}, 7, 30, 0xad0b72c6},  {{300, 2, 1}, 3, 200, 0xf76e7cb7},
};

TEST(Resampler, GivesPillowsBytes) {
  for (const PillowCase& c : kPillow) {
    std::uint32_t sum = 0;
    for (const std::uint8_t value : resized(pattern(c.from), c.from, {c.height, c.width, c.from.channels}))
      sum = sum * 31 + value;
    EXPECT_EQ(sum, c.checksum) << to_string(c.from) << " to " << c.height << " x " << c.width;
  }
}

TEST(Resampler, AveragesEveryPixelWhenItShrinks) {
  // A fine checkerboard becomes grey; without antialiasing it would stay black and white.
  const ImageShape from{64, 64, 1};
  std::vector<std::uint8_t> board(from.bytes());
  for (std::size_t i = 0; i < board.size(); ++i) board[i] = (i / 64 + i) % 2 == 0 ? 0 : 255;
  for (const std::uint8_t value : resized(board, from, {7, 7, 1})) EXPECT_NEAR(value, 127.5, 4);
}

TEST(Resampler, KeepsAFlatColourInEveryChannel) {
  for (const std::int32_t channels : {1, 2, 3, 4}) {
    const ImageShape from{13, 7, channels};
    std::vector<std::uint8_t> flat(from.bytes());
    for (std::size_t i = 0; i < flat.size(); ++i)
      flat[i] = static_cast<std::uint8_t>(60 * (i % static_cast<std::size_t>(channels)) + 70);
    for (const ImageShape to : {ImageShape{5, 20, channels}, ImageShape{40, 2, channels}}) {
      const auto out = resized(flat, from, to);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], flat[i % static_cast<std::size_t>(channels)]);
    }
  }
}

TEST(Resampler, InterpolatesLinearlyWhenItEnlarges) {
  EXPECT_EQ(resized({0, 100}, {1, 2, 1}, {1, 4, 1}), (std::vector<std::uint8_t>{0, 25, 75, 100}));
}

class ResizeTest : public testing::Test {
 protected:
  void show(ImageShape shape) {
    sample_.reset({}, {});
    const Image image = sample_.new_image(shape);
    const auto pixels = pattern(shape);
    std::memcpy(image.data, pixels.data(), pixels.size());
    sample_.set_image(image);
  }
  ImageShape shape_after(Resize& stage, ImageShape shape) {
    show(shape);
    Draw draw(1, {}, 0);
    stage.process(sample_, draw);
    EXPECT_EQ(draw.hash(), 0U);
    return sample_.image().shape;
  }
  static std::string mistake(const Value& table, const StageContext& context = {}) {
    try {
      testkit::Harness harness(StageTypeAccess::make<Resize>(), table, context);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "nothing was thrown";
  }

  StageContext context_;
  Resize::Params params_;
  Sample sample_;
};

TEST_F(ResizeTest, GivesTheExactSize) {
  params_.size = Size{8, 12};
  context_.image.channels = 3;
  Resize stage(params_, context_);
  EXPECT_EQ(stage.image_shape(), (ImageShape{8, 12, 3}));
  EXPECT_EQ(shape_after(stage, {40, 9, 3}), (ImageShape{8, 12, 3}));
  const auto expected = resized(pattern({40, 9, 3}), {40, 9, 3}, {8, 12, 3});
  EXPECT_EQ(std::vector<std::uint8_t>(sample_.image().data, sample_.image().data + expected.size()), expected);
  EXPECT_EQ(shape_after(stage, {8, 12, 3}), (ImageShape{8, 12, 3}));
}

TEST_F(ResizeTest, KeepsProportionsByTheShortSide) {
  params_.short_side = 10;
  Resize stage(params_, context_);
  EXPECT_FALSE(stage.image_shape().is_static());
  EXPECT_EQ(shape_after(stage, {40, 25, 1}), (ImageShape{16, 10, 1}));
  EXPECT_EQ(shape_after(stage, {25, 40, 1}), (ImageShape{10, 16, 1}));
  EXPECT_EQ(shape_after(stage, {7, 7, 1}), (ImageShape{10, 10, 1}));
  context_.image = {20, 30, 3};
  EXPECT_EQ(Resize(params_, context_).image_shape(), (ImageShape{10, 15, 3}));
}

TEST_F(ResizeTest, AppliesAPendingRecordFirst) {
  params_.size = Size{4, 4};
  context_.window = {8, 8, 1};
  Resize stage(params_, context_);
  show({8, 8, 1});
  sample_.place_window(context_.window);
  sample_.record.flip_x(8);
  auto flipped = pattern({8, 8, 1});
  for (std::size_t row = 0; row < 8; ++row)
    std::reverse(flipped.begin() + static_cast<int>(8 * row), flipped.begin() + static_cast<int>(8 * row + 8));
  Draw draw(1, {}, 0);
  stage.process(sample_, draw);
  const auto expected = resized(flipped, {8, 8, 1}, {4, 4, 1});
  EXPECT_EQ(std::vector<std::uint8_t>(sample_.image().data, sample_.image().data + 16), expected);
  EXPECT_TRUE(sample_.record.is_identity());
}

TEST_F(ResizeTest, AThreadLongImageIsABadSample) {
  params_.short_side = 100;
  Resize stage(params_, context_);
  try {
    shape_after(stage, {1, 1000, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::content);
    EXPECT_EQ(error.message(), "an image of 1 x 1000 would get a side of 100000 pixels: at most 65535");
  }
}

TEST_F(ResizeTest, NamesItsMistakes) {
  EXPECT_EQ(mistake({}), "expected either `size = [height, width]` or `short_side`, found neither");
  const Value side(std::int64_t{8});
  EXPECT_EQ(mistake(testkit::table({{"size", side}, {"short_side", side}})),
            "expected either `size = [height, width]` or `short_side`, found both");
}

}  // namespace
}  // namespace millrace
