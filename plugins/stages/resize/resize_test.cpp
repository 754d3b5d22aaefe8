#include "resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/resample.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/positions.h"

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
  static std::string mistake(const Value& table, const StepContext& context = {}) {
    return testkit::error_of(ErrorKind::usage, [&] { testkit::Harness harness(StageTypeAccess::make<Resize>(), table, context); })
        .message();
  }

  StepContext context_;
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
  place_window(sample_, context_.window);
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

// The state after `augment`, whose window is the network's input.
TEST_F(ResizeTest, ResizesTheWholeImageWhateverTheNetworkWillSee) {
  for (const ImageShape& shape : {ImageShape{8, 8, 1}, ImageShape{3, 3, 1}}) {
    params_.size = Size{4, 4};
    context_.window = {4, 4, 1};
    Resize stage(params_, context_);
    show(shape);
    place_window(sample_, context_.window);
    Draw draw(1, {}, 0);
    stage.process(sample_, draw);
    const std::vector<std::uint8_t> expected = resized(pattern(shape), shape, {4, 4, 1});
    EXPECT_EQ(std::vector<std::uint8_t>(sample_.image().data, sample_.image().data + 16), expected) << shape.height;
  }
}

TEST_F(ResizeTest, TakesTheFilterItIsTold) {
  for (const char* name : {"nearest", "bilinear", "bicubic"}) {
    params_.size = Size{5, 6};
    params_.filter = name;
    Resize stage(params_, context_);
    shape_after(stage, {9, 7, 3});
    auto pixels = pattern({9, 7, 3});
    std::vector<std::uint8_t> expected(5 * 6 * 3);
    Resampler().resize(rows_of({pixels.data(), {9, 7, 3}}), {0, 0, 7, 9}, resample_filter(name), {5, 6, 3}, expected.data());
    EXPECT_EQ(std::vector<std::uint8_t>(sample_.image().data, sample_.image().data + expected.size()), expected) << name;
  }
}

TEST_F(ResizeTest, TakesATargetAlongAndMixesNoClasses) {
  for (const auto kind : {TargetSpec::Kind::classes, TargetSpec::Kind::image}) {
    TargetSpec spec;
    spec.kind = kind;
    const ImageShape shape{8, 6, spec.channels(3)}, to{4, 9, shape.channels};
    sample_.reset({}, {}, spec);
    const Image image = sample_.new_image({8, 6, 3}), target = sample_.new_target(shape);
    auto pixels = pattern({8, 6, 3}), labels = pattern(shape);
    std::copy(pixels.begin(), pixels.end(), image.data);
    std::copy(labels.begin(), labels.end(), target.data);
    sample_.set_image(image);
    sample_.set_target(target);
    params_.size = Size{4, 9};
    Resize stage(params_, context_);
    Draw draw(1, {}, 0);
    stage.process(sample_, draw);
    EXPECT_EQ(sample_.image().shape, (ImageShape{4, 9, 3}));
    ASSERT_EQ(sample_.target().shape, to);
    std::vector<std::uint8_t> expected(to.bytes());
    const auto filter = kind == TargetSpec::Kind::classes ? ResampleFilter::nearest : ResampleFilter::bilinear;
    Resampler().resize(rows_of({labels.data(), shape}), {0, 0, 6, 8}, filter, to, expected.data());
    EXPECT_EQ(std::vector<std::uint8_t>(sample_.target().data, sample_.target().data + expected.size()), expected);
  }
}

TEST_F(ResizeTest, ALargerTargetStaysAsManyTimesAsLarge) {
  for (const int scale : {2, 4}) {
    const TargetSpec target = testkit::scaled_target(scale);
    for (const Size size : {Size{10, 21}, {24, 17}, {27, 28}}) {
      params_.size = size;
      testkit::show_positions(sample_, {20, 24, 3}, target);
      Draw draw(1, {}, 0);
      Resize(params_, context_).process(sample_, draw);
      EXPECT_GT(testkit::expect_follows(sample_, 2.5), 600);     // at the edges, pixels outside have less weight in the target
      EXPECT_GT(testkit::expect_source_map(sample_, 0.3), 160);  // there as well
    }
  }
}

TEST_F(ResizeTest, AThreadLongImageIsABadSample) {
  params_.short_side = 100;
  Resize stage(params_, context_);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { shape_after(stage, {1, 1000, 1}); }).message());
  params_.short_side = 12'000;
  Resize huge(params_, context_);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { shape_after(huge, {1, 5, 1}); }).message());
}

TEST_F(ResizeTest, NamesItsMistakes) {
  EXPECT_MESSAGE(mistake({}));
  const Value side(std::int64_t{8});
  EXPECT_MESSAGE(mistake(testkit::table({{"size", side}, {"short_side", side}})));
}

}  // namespace
}  // namespace millrace
