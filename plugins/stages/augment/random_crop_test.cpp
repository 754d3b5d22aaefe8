// Parts of images, resized.
#include <gtest/gtest.h>

#include <algorithm>

#include "host_fixture.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

class RandomCropTest : public HostTest {
 protected:
  RandomCropTest() {
    context_.window = {};
    params_.random_resized_crop.emplace().size = Size{10, 14};
  }
  void crop(Sample& sample, std::uint64_t index, ImageShape shape = kShape) {
    show(sample, index, pattern(shape), shape);
    process(Augment(params_, context_), sample);
  }
};

TEST_F(RandomCropTest, GivesItsSizeWhateverComes) {
  context_.image.channels = 3;
  EXPECT_EQ(Augment(params_, context_).image_shape(), (ImageShape{10, 14, 3}));
  Sample sample;
  for (const ImageShape shape : {kShape, ImageShape{1, 1, 3}, ImageShape{3, 200, 3}, ImageShape{90, 2, 3}}) {
    for (std::uint64_t index = 0; index < 10; ++index) {
      crop(sample, index, shape);
      EXPECT_EQ(sample.image().shape, (ImageShape{10, 14, 3}));
    }
  }
}

TEST_F(RandomCropTest, TheWholeImageIsAPartToo) {
  params_.random_resized_crop->size = Size{24, 24};
  params_.random_resized_crop->area = {1, 1};
  params_.random_resized_crop->aspect = {1, 1};
  Sample sample;
  crop(sample, 0);
  EXPECT_EQ(Bytes(sample.image().data, sample.image().data + kShape.bytes()), pattern(kShape));
}

TEST_F(RandomCropTest, TakesPartsOfTheAreaThatItWasAskedFor) {
  // Columns of ascending levels: the range of levels reveals the width of the part.
  params_.random_resized_crop->area = {0.25, 0.25};
  params_.random_resized_crop->aspect = {1, 1};
  params_.random_resized_crop->filter = "nearest";
  const ImageShape shape{100, 100, 1};
  Bytes ramp(shape.bytes());
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<std::uint8_t>(i % 100);
  const Augment stage(params_, context_);
  int least = 255, most = 0;
  Sample sample;
  for (std::uint64_t index = 0; index < 100; ++index) {
    show(sample, index, ramp, shape);
    process(stage, sample);
    const std::uint8_t first = sample.image().data[0], last = sample.image().data[13];
    EXPECT_NEAR(last - first, 50 * 13 / 14, 1);
    least = std::min<int>(least, first);
    most = std::max<int>(most, last);
  }
  EXPECT_LT(least, 8);
  EXPECT_GT(most, 92);
}

TEST_F(RandomCropTest, ClassesTakeTheSameWay) {
  Bytes labels(24 * 24), pixels(kShape.bytes());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::uint8_t>(i % 24 / 4 + i / 24 / 4 * 6);
    std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, static_cast<std::uint8_t>(labels[i] * 5));
  }
  params_.random_resized_crop->filter = "nearest";
  params_.flip_x = 0.5;
  params_.erase = {1, 1, {0, 0}, {1, 1}, "constant"};  // executes the flip here
  Sample sample;
  for (std::uint64_t index = 0; index < 30; ++index) {
    show(sample, index, pixels, kShape, &classes_, labels);
    process(Augment(params_, context_), sample);
    ASSERT_EQ(sample.target().shape, (ImageShape{10, 14, 1}));
    for (std::size_t i = 0; i < 140; ++i) ASSERT_EQ(sample.image().data[3 * i], 5 * sample.target().data[i]);
  }
}

TEST_F(RandomCropTest, OtherChangesComeAfterIt) {
  params_.brightness = Range{0, 0};
  params_.rotate = Range{45, 45};
  params_.fill = {200};
  Sample sample;
  crop(sample, 0);
  EXPECT_EQ(sample.image().data[0], 200);  // a corner
  EXPECT_EQ(sample.image().data[3 * (5 * 14 + 7)], 0);
}

TEST_F(RandomCropTest, NamesAnImpossibleSize) {
  params_.random_resized_crop->size = Size{0, 5};
  EXPECT_MESSAGE(testkit::error_of([&] { const Augment stage(params_, context_); }).message());
}

}  // namespace
}  // namespace millrace
