// Where a sample's pixels come from: exact, or unknown.
#include <gtest/gtest.h>

#include "millrace/batch.h"
#include "millrace/util/batch_input.h"
#include "testkit/positions.h"

namespace millrace {
namespace {

constexpr ImageShape kShape{12, 15, 3}, kWindow{8, 7, 3};

class SourceMapTest : public testing::Test {
 protected:
  SourceMapTest() { testkit::show_positions(sample_, kShape, target_); }

  // Draws a record that a stage could leave.
  void draw_record(std::uint64_t seed, ImageShape window) {
    Draw draw(seed, {}, 0);
    if (draw.chance(0.7)) place_window(sample_, window);
    if (draw.chance(0.5)) sample_.record.flip_x(window.width);
    if (draw.chance(0.5)) sample_.record.flip_y(window.height);
    sample_.record.translate(static_cast<int>(draw.integer(-4, 4)), static_cast<int>(draw.integer(-4, 4)));
  }

  const TargetSpec target_ = testkit::scaled_target(1);
  Sample sample_;
};

TEST_F(SourceMapTest, IsUnknownAfterAChangeThatSaysNothing) {
  EXPECT_TRUE(sample_.source_map().is_known());
  sample_.change_colours();
  EXPECT_EQ(sample_.source_map(), (SourceMap{12, 15, {}}));
  sample_.change_pixels();
  EXPECT_FALSE(sample_.source_map().is_known());

  testkit::show_positions(sample_, kShape, target_);
  sample_.set_image(sample_.new_image(kShape));
  EXPECT_FALSE(sample_.source_map().is_known());
  sample_.set_image(sample_.new_image(kShape), AffineMap::translation(1, 2));
  EXPECT_EQ(sample_.source_map(), SourceMap{}) << "nothing is made known by a step from the unknown";

  testkit::show_positions(sample_, kShape, target_);
  sample_.reset({}, {});
  EXPECT_FALSE(sample_.source_map().is_known());
}

TEST_F(SourceMapTest, GoesThroughEachStepInTurn) {
  const AffineMap first = AffineMap::scale(2, 3).then(AffineMap::translation(1, 0)), second = AffineMap::rotation(90);
  sample_.set_image(sample_.new_image({4, 5, 3}), first);
  sample_.set_image(sample_.new_image({5, 4, 3}), second);
  EXPECT_EQ(sample_.source_map(), (SourceMap{12, 15, second.then(first)}));
}

TEST_F(SourceMapTest, FollowsARecordThatIsExecuted) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    testkit::show_positions(sample_, kShape, target_);
    draw_record(seed, kWindow);
    apply_pending(sample_, kWindow);
    EXPECT_GT(testkit::expect_source_map(sample_, 0), 5) << seed;
  }
}

// Executed or not, by a stage or by the device.
TEST_F(SourceMapTest, OfWhatTheNetworkSeesIsTheSameBeforeAndAfter) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    testkit::show_positions(sample_, kShape, target_);
    draw_record(seed, kWindow);
    place_window(sample_, kWindow);  // as `batch` does
    const SourceMap before = seen_source(sample_, kWindow);
    apply_pending(sample_, kWindow);
    EXPECT_EQ(seen_source(sample_, kWindow), before);
    EXPECT_EQ(sample_.source_map(), before);
  }
}

TEST_F(SourceMapTest, SeesTheMiddleWhereNobodyPlacedTheWindow) {
  EXPECT_EQ(seen_source(sample_, kWindow).map, AffineMap::translation(4, 2));
  EXPECT_EQ(seen_source(sample_, {}).map, AffineMap());
  place_window(sample_, kWindow);
  EXPECT_EQ(seen_source(sample_, kWindow).map, AffineMap::translation(4, 2)) << "once";
}

TEST_F(SourceMapTest, ABatchWithoutMapsKnowsNothing) {
  AugmentationRecord record;
  Batch batch;
  batch.records = &record;
  EXPECT_FALSE(seen_source(batch, 0).is_known());
  SourceMap map{12, 15, AffineMap::translation(1, 1)};
  batch.source_maps = &map;
  record.flip_x(7);
  EXPECT_EQ(seen_source(batch, 0), (SourceMap{12, 15, {-1, 0, 7, 0, 1, 1}}));
}

}  // namespace
}  // namespace millrace
