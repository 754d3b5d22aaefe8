// Targets larger than their image.
#include <gtest/gtest.h>

#include <algorithm>

#include "host_fixture.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "testkit/positions.h"

namespace millrace {
namespace {

TEST_F(HostTest, ALargerTargetMovesInStepWithItsImage) {
  params_.rotate = Range{-40, 40};
  params_.scale = Range{0.7, 1.4};
  params_.shear_x = Range{-10, 10};
  params_.flip_x = 0.5;
  params_.translate = {{-3, 3}, {-3, 3}, true};
  for (const char* border : {"constant", "reflect"}) {
    params_.border = border;
    for (const int scale : {2, 4}) {
      const TargetSpec target = context_.target = testkit::scaled_target(scale);
      const Augment stage(params_, context_);
      Sample sample;
      for (std::uint64_t index = 0; index < 8; ++index) {
        testkit::show_positions(sample, kShape, target, {.epoch = 0, .position = index, .index = index});
        process(stage, sample);
        // The target's edge pixels are smaller; in mirrored pictures, means over the turning point are flatter.
        EXPECT_GT(testkit::expect_follows(sample, params_.border == "constant" ? 2 : 5), 300) << border;
        EXPECT_GT(testkit::expect_source_map(sample, 0.1), 100) << border;
      }
    }
  }
}

TEST_F(HostTest, AQuarterTurnOfALargerTargetIsExact) {
  params_.rotate = Range{90, 90};
  params_.translate = {{2, 2}, {-3, -3}, true};
  for (const int scale : {2, 4}) {
    const TargetSpec target = context_.target = testkit::scaled_target(scale);
    Sample sample;
    testkit::show_positions(sample, kShape, target);
    process(Augment(params_, context_), sample);
    EXPECT_EQ(testkit::expect_follows(sample), 22 * 21 * 3);
    EXPECT_EQ(testkit::expect_source_map(sample, 1e-6), 22 * 21);
  }
}

TEST_F(HostTest, ALargerTargetFollowsItsRecord) {
  params_.flip_x = params_.flip_y = 0.5;
  params_.translate = {{-9, 9}, {-9, 9}};
  context_.window = {16, 12, 3};
  for (const char* border : {"constant", "reflect"}) {
    params_.border = border;
    for (const int scale : {2, 4}) {
      const TargetSpec target = context_.target = testkit::scaled_target(scale);
      const Augment stage(params_, context_);
      Sample sample;
      for (std::uint64_t index = 0; index < 30; ++index) {
        testkit::show_positions(sample, kShape, target, {.epoch = 0, .position = index, .index = index});
        process(stage, sample);
        apply_pending(sample, context_.window);
        EXPECT_GT(testkit::expect_follows(sample), 150) << border;
        EXPECT_GT(testkit::expect_source_map(sample, 0), 30) << border;
      }
    }
  }
}

TEST_F(HostTest, PoliciesMoveALargerTargetToo) {
  params_.rand_augment.emplace().operations = 1;
  const TargetSpec target = context_.target = testkit::scaled_target(2, TargetSpec::Kind::classes);
  const Augment stage(params_, context_);
  Sample sample, still;
  int moved = 0;
  for (std::uint64_t index = 0; index < 60; ++index) {
    const SampleKey key{.epoch = 0, .position = index, .index = index};
    testkit::show_positions(sample, kShape, target, key);
    testkit::show_positions(still, kShape, target, key);
    process(stage, sample);
    const std::size_t bytes = target.shape(kShape).bytes();
    if (std::equal(sample.target().data, sample.target().data + bytes, still.target().data)) continue;  // a colour was changed
    for (std::size_t i = 0; i < bytes; ++i) {  // filled with the ignored class: in a picture it would be 0
      if (sample.target().data[i] == target.ignored) const_cast<std::uint8_t*>(sample.target().data)[i] = 0;
    }
    testkit::expect_follows(sample, 4);  // by nearest neighbour; the image between pixels
    ++moved;
  }
  EXPECT_GT(moved, 10);
}

TEST_F(HostTest, RefusesTargetsThatARecordCannotPlace) {
  const auto refusal = [this] { return testkit::error_of([this] { Augment(params_, context_); }).message(); };
  context_.target = testkit::scaled_target(4);
  params_.translate = {{-3'001, 0}, {0, 0}};
  EXPECT_MESSAGE(refusal());
  params_.translate = {};
  context_.image = {3'001, 20, 3};
  EXPECT_MESSAGE(refusal());
  params_.random_resized_crop.emplace().size = Size{20, 3'001};
  EXPECT_MESSAGE(refusal());
}

TEST_F(HostTest, OfALargerTargetTheSamePartIsCutOut) {
  params_.random_resized_crop.emplace().size = Size{10, 14};
  params_.random_resized_crop->area = {0.2, 0.9};
  context_.window = {};
  for (const int scale : {2, 4}) {
    const TargetSpec target = context_.target = testkit::scaled_target(scale);
    const Augment stage(params_, context_);
    Sample sample;
    for (std::uint64_t index = 0; index < 20; ++index) {
      testkit::show_positions(sample, kShape, target, {.epoch = 0, .position = index, .index = index});
      process(stage, sample);
      EXPECT_EQ(testkit::expect_follows(sample, 2.5), 10 * 14 * 3);
      EXPECT_GT(testkit::expect_source_map(sample, 0.35), 100);
    }
  }
}

}  // namespace
}  // namespace millrace
