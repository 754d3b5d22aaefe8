#include "crop.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/positions.h"

namespace millrace {
namespace {

class CropTest : public testing::Test {
 protected:
  // Every pixel encodes its position: row in the first channel, column in the second.
  void show(ImageShape shape) {
    sample_.reset({}, {});
    const Image image = sample_.new_image(shape);
    std::uint8_t* pixel = image.data;
    for (int row = 0; row < shape.height; ++row) {
      for (int column = 0; column < shape.width; ++column) {
        *pixel++ = static_cast<std::uint8_t>(row);
        *pixel++ = static_cast<std::uint8_t>(column);
      }
    }
    sample_.set_image(image);
  }
  // Row and column of the cropped piece; checks the rest of it.
  std::pair<int, int> cut(Crop& stage, std::uint64_t position = 0) {
    SampleKey key;
    key.position = position;
    Draw draw(1, key, 2);
    stage.process(sample_, draw);
    const ImageView image = sample_.image();
    const int top = image.data[0], left = image.data[1];
    for (int i = 0; i < image.shape.height * image.shape.width; ++i) {
      EXPECT_EQ(image.data[2 * i], top + i / image.shape.width);
      EXPECT_EQ(image.data[2 * i + 1], left + i % image.shape.width);
    }
    return {top, left};
  }

  StepContext context_;
  Crop::Params params_;
  Sample sample_;
};

TEST_F(CropTest, CutsOutTheMiddle) {
  params_.size = {4, 6};
  context_.image.channels = 2;
  Crop stage(params_, context_);
  EXPECT_EQ(stage.image_shape(), (ImageShape{4, 6, 2}));
  show({9, 10, 2});
  EXPECT_EQ(cut(stage), (std::pair{2, 2}));
  EXPECT_EQ(sample_.image().shape, (ImageShape{4, 6, 2}));
  show({7, 13, 2});
  EXPECT_EQ(cut(stage), (std::pair{2, 4}));
  show({4, 6, 2});
  EXPECT_EQ(cut(stage), (std::pair{0, 0}));
}

TEST_F(CropTest, CutsOutEverywhereAtRandom) {
  params_.size = {4, 4};
  params_.position = "random";
  Crop stage(params_, context_);
  std::map<std::pair<int, int>, int> counts;
  for (std::uint64_t position = 0; position < 2400; ++position) {
    show({6, 5, 2});
    ++counts[cut(stage, position)];
  }
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [at, count] : counts) EXPECT_NEAR(count, 400, 75) << at.first << ' ' << at.second;
}

TEST_F(CropTest, CutsTheSamePieceOutOfATarget) {
  params_.size = {4, 4};
  params_.position = "random";
  Crop stage(params_, context_);
  TargetSpec classes;
  classes.kind = TargetSpec::Kind::classes;
  for (std::uint64_t position = 0; position < 20; ++position) {
    sample_.reset({}, {}, classes);
    const Image image = sample_.new_image({7, 9, 2}), target = sample_.new_target({7, 9, 1});
    for (int i = 0; i < 63; ++i) {
      image.data[2 * i] = static_cast<std::uint8_t>(i / 9);
      image.data[2 * i + 1] = static_cast<std::uint8_t>(i % 9);
      target.data[i] = static_cast<std::uint8_t>(100 + i);
    }
    sample_.set_image(image);
    sample_.set_target(target);
    const auto [top, left] = cut(stage, position);
    ASSERT_EQ(sample_.target().shape, (ImageShape{4, 4, 1}));
    for (int i = 0; i < 16; ++i) ASSERT_EQ(sample_.target().data[i], 100 + (top + i / 4) * 9 + left + i % 4);
  }
}

TEST_F(CropTest, CutsTheSamePieceOutOfALargerTarget) {
  params_.size = {4, 5};
  params_.position = "random";
  Crop stage(params_, context_);
  for (const int scale : {2, 4}) {
    const TargetSpec target = testkit::scaled_target(scale);
    for (std::uint64_t position = 0; position < 10; ++position) {
      testkit::show_positions(sample_, {7, 9, 3}, target);
      Draw draw(1, {.epoch = 0, .position = position}, 0);
      stage.process(sample_, draw);
      EXPECT_EQ(testkit::expect_follows(sample_), 4 * 5 * 3);
      EXPECT_EQ(testkit::expect_source_map(sample_, 0), 4 * 5);
    }
  }
}

TEST_F(CropTest, DrawsTheSameNumberForEverySize) {
  params_.size = {4, 4};
  params_.position = "random";
  Crop stage(params_, context_);
  Draw draw(1, {}, 2), same(1, {}, 2);
  show({4, 4, 2});
  stage.process(sample_, draw);
  same.bits();
  same.bits();
  EXPECT_EQ(draw.hash(), same.hash());
}

TEST_F(CropTest, AppliesAPendingRecordFirst) {
  params_.size = {2, 2};
  context_.window = {6, 6, 2};
  Crop stage(params_, context_);
  show({6, 6, 2});
  place_window(sample_, context_.window);
  sample_.record.border = Border::edge;
  sample_.record.translate(-1, -1);
  EXPECT_EQ(cut(stage), (std::pair{3, 3}));
}

// The state after `augment`, whose window is the network's input: otherwise a random piece would be the middle one.
TEST_F(CropTest, CutsOutOfTheWholeImageWhateverTheNetworkWillSee) {
  params_.size = {4, 4};
  params_.position = "random";
  context_.window = {4, 4, 2};
  Crop stage(params_, context_);
  std::set<std::pair<int, int>> places;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    show({8, 8, 2});
    place_window(sample_, context_.window);
    Draw draw(seed, {}, 2);
    stage.process(sample_, draw);
    places.emplace(sample_.image().data[0], sample_.image().data[1]);
  }
  EXPECT_GT(places.size(), 15U) << "of 25";
}

TEST_F(CropTest, AnImageThatIsTooSmallIsABadSample) {
  params_.size = {4, 4};
  Crop stage(params_, context_);
  show({3, 10, 2});
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { cut(stage); }).message());
}

TEST_F(CropTest, FindsImpossibleSizesBeforeTheRun) {
  params_.size = {40, 4};
  context_.image = {32, 32, 2};
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { Crop stage(params_, context_); }).message());
  params_.size = {0, 4};
  EXPECT_THROW(Crop(params_, context_), Error);
}

}  // namespace
}  // namespace millrace
