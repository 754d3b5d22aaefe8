#include "pad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/positions.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::uint8_t>;

class PadTest : public testing::Test {
 protected:
  void show(ImageShape shape, const Bytes& pixels) {
    sample_.reset({}, {});
    const Image image = sample_.new_image(shape);
    std::copy(pixels.begin(), pixels.end(), image.data);
    sample_.set_image(image);
  }
  Bytes padded() {
    Draw draw(1, {}, 2), untouched(1, {}, 2);
    Pad(params_, context_).process(sample_, draw);
    EXPECT_EQ(draw.hash(), untouched.hash());
    const ImageView image = sample_.image();
    return {image.data, image.data + image.shape.bytes()};
  }
  std::string mistake(ErrorKind kind) {
    return testkit::error_of(kind, [&] { padded(); }).message();
  }

  StepContext context_;
  Pad::Params params_;
  Sample sample_;
};

TEST_F(PadTest, PutsAMarginAroundTheImage) {
  params_.margin = Size{1, 2};
  params_.fill = {9};
  show({2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(padded(), (Bytes{9, 9, 9, 9, 9, 9,  //
                             9, 9, 1, 2, 9, 9,  //
                             9, 9, 3, 4, 9, 9,  //
                             9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(sample_.image().shape, (ImageShape{4, 6, 1}));
}

TEST_F(PadTest, MakesASize) {
  params_.size = Size{2, 4};
  params_.fill = {7, 8, 9};
  context_.image = {0, 0, 3};
  EXPECT_EQ(Pad(params_, context_).image_shape(), (ImageShape{2, 4, 3}));
  show({1, 1, 3}, {1, 2, 3});
  EXPECT_EQ(padded(), (Bytes{7, 8, 9, 1, 2, 3, 7, 8, 9, 7, 8, 9,  //
                             7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9}));
  show({1, 3, 3}, {1, 1, 1, 2, 2, 2, 3, 3, 3});  // an odd difference of 1: the margin does not begin before the image
  EXPECT_EQ(padded(), (Bytes{1, 1, 1, 2, 2, 2, 3, 3, 3, 7, 8, 9,  //
                             7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9}));
}

TEST_F(PadTest, ContinuesTheImage) {
  params_.margin = Size{0, 2};
  params_.border = "reflect";
  show({1, 3, 1}, {1, 2, 3});
  EXPECT_EQ(padded(), (Bytes{3, 2, 1, 2, 3, 2, 1}));
  params_.border = "edge";
  show({1, 3, 1}, {1, 2, 3});
  EXPECT_EQ(padded(), (Bytes{1, 1, 1, 2, 3, 3, 3}));
}

TEST_F(PadTest, FillsATargetOfClassesWithItsIgnoredId) {
  TargetSpec classes;
  classes.kind = TargetSpec::Kind::classes;
  classes.ignored = 200;
  params_.margin = Size{0, 1};
  sample_.reset({}, {}, classes);
  const Image image = sample_.new_image({1, 1, 3}), target = sample_.new_target({1, 1, 1});
  std::fill_n(image.data, 3, std::uint8_t{5});
  target.data[0] = 11;
  sample_.set_image(image);
  sample_.set_target(target);
  EXPECT_EQ(padded(), (Bytes{0, 0, 0, 5, 5, 5, 0, 0, 0}));
  EXPECT_EQ(Bytes(sample_.target().data, sample_.target().data + 3), (Bytes{200, 11, 200}));
}

TEST_F(PadTest, ALargerTargetGetsAsManyTimesTheMargin) {
  params_.margin = Size{3, 2};
  for (const char* border : {"constant", "reflect", "edge"}) {
    params_.border = border;
    for (const int scale : {2, 4}) {
      const TargetSpec target = testkit::scaled_target(scale);
      testkit::show_positions(sample_, {6, 5, 3}, target);
      Draw draw(1, {}, 0);
      Pad(params_, context_).process(sample_, draw);
      const bool edge = params_.border == "edge";  // whose edge pixels are smaller
      EXPECT_EQ(testkit::expect_follows(sample_, edge ? 3 : 0), 3 * (params_.border == "constant" ? 6 * 5 : 12 * 9)) << border;
      EXPECT_EQ(testkit::expect_source_map(sample_, 0), 6 * 5) << border;
    }
  }
}

TEST_F(PadTest, RefusesTargetsThatARecordCannotPlace) {
  context_.target = testkit::scaled_target(2);
  params_.size = Size{6'001, 4};
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
  params_.size.reset();
  params_.margin = Size{3'000, 0};
  context_.image = {3, 3, 1};
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
}

TEST_F(PadTest, AppliesAPendingRecordFirst) {
  params_.margin = Size{0, 1};
  context_.window = {1, 3, 1};
  show({1, 3, 1}, {1, 2, 3});
  place_window(sample_, context_.window);
  sample_.record.flip_x(3);
  EXPECT_EQ(padded(), (Bytes{0, 3, 2, 1, 0}));
  EXPECT_TRUE(sample_.record.is_identity());
}

// The state after `augment`, whose window is the network's input.
TEST_F(PadTest, PadsTheWholeImageWhateverTheNetworkWillSee) {
  params_.size = Size{1, 5};
  params_.fill = {9};
  context_.window = {1, 5, 1};
  show({1, 3, 1}, {1, 2, 3});
  place_window(sample_, context_.window);
  EXPECT_EQ(padded(), (Bytes{9, 1, 2, 3, 9}));
}

TEST_F(PadTest, NamesItsMistakes) {
  show({3, 3, 1}, Bytes(9));
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
  params_.size = Size{2, 4};
  EXPECT_MESSAGE(mistake(ErrorKind::content));
  context_.image = {3, 3, 1};
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
  params_.fill = {1, 2};
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
  params_.fill = {0};
  params_.margin = Size{0, 0};
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
  params_.size.reset();
  params_.margin = Size{0, 6'000};
  EXPECT_MESSAGE(mistake(ErrorKind::usage));
}

}  // namespace
}  // namespace millrace
