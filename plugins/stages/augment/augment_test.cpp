#include "augment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

constexpr ImageShape kShape{8, 8, 1};

class AugmentTest : public testing::Test {
 protected:
  AugmentTest() {
    context_.seed = 1;
    context_.name = "augment";
    context_.image = context_.window = kShape;
  }

  // A sample after a stage with these parameters.
  Sample run(const Augment& stage, std::uint64_t index, std::uint64_t epoch = 0, ImageShape shape = kShape) {
    Sample sample;
    sample.reset({epoch, index, index, 0}, {});
    sample.set_image(sample.new_image(shape));
    sample.set_resident();
    Draw draw(context_.seed, sample.key, hash_text(context_.name));
    const_cast<Augment&>(stage).process(sample, draw);
    sample.hash = combine(sample.hash, draw.hash());
    return sample;
  }
  std::string mistake() {
    return testkit::error_of(ErrorKind::usage, [&] { Augment stage(params_, context_); }).message();
  }

  StepContext context_;
  Augment::Params params_;
};

TEST_F(AugmentTest, ChangesNothingUnlessAsked) {
  const Augment stage(params_, context_);
  for (std::uint64_t index = 0; index < 50; ++index) EXPECT_TRUE(run(stage, index).record.is_identity());
}

// Then it may precede a cache, unlike each of these settings alone.
TEST_F(AugmentTest, IsRandomOnlyIfSomethingMayHappen) {
  const auto is_random = [&](const std::function<void(Augment::Params&)>& set) {
    Augment::Params params;
    set(params);
    const Augment stage(params, context_);
    const bool draws = run(stage, 3).hash != combine(0, 0);
    EXPECT_EQ(stage.is_random(), draws);
    EXPECT_TRUE(draws || !stage.changes_pixels());
    return draws;
  };
  EXPECT_FALSE(is_random([](auto&) {}));
  EXPECT_FALSE(is_random([](auto& p) { p.border = "edge", p.translate.subpixel = true; }));
  EXPECT_FALSE(is_random([](auto& p) { p.erase.emplace().chance = 0; }));
  EXPECT_FALSE(is_random([](auto& p) { p.blur.emplace().chance = p.noise.emplace().chance = 0; }));
  EXPECT_TRUE(is_random([](auto& p) { p.erase.emplace().chance = 0.1; }));
  EXPECT_TRUE(is_random([](auto& p) { p.translate.y = {0, 1}; }));
  EXPECT_TRUE(is_random([](auto& p) { p.alternating_flip = true; }));
  EXPECT_TRUE(is_random([](auto& p) { p.rotate = {0, 0}; }));
  EXPECT_TRUE(is_random([](auto& p) { p.posterise.emplace(); }));
  EXPECT_TRUE(is_random([](auto& p) { p.invert = 0.5; }));
  EXPECT_TRUE(is_random([](auto& p) { p.trivial_augment = true; }));
}

TEST_F(AugmentTest, KeepsImagesResidentUnlessItChangesPixels) {
  const auto resident = [&] {
    const Augment stage(params_, context_);
    int count = 0;
    for (std::uint64_t index = 0; index < 40; ++index) count += run(stage, index).resident();
    return count;
  };
  params_.flip_x = 0.5;
  params_.flip_y = 0.5;
  params_.translate.x = params_.translate.y = {-2, 2};
  EXPECT_EQ(resident(), 40);
  params_.flip_x = 0;
  params_.alternating_flip = true;
  EXPECT_EQ(resident(), 40);
  auto record_only = params_;
  params_.brightness = {0.5, 1.5};
  EXPECT_EQ(resident(), 0);
  params_ = record_only;
  params_.rotate = {-10, 10};
  EXPECT_EQ(resident(), 0);
  params_ = record_only;
  params_.erase.emplace().chance = 0.5;
  const int whole = resident();
  EXPECT_GT(whole, 0);
  EXPECT_LT(whole, 40);
}

TEST_F(AugmentTest, FlipsAsOftenAsItsChanceSays) {
  params_.flip_x = 0.5;
  params_.flip_y = 0.25;
  const Augment stage(params_, context_);
  int x = 0, y = 0, both = 0;
  for (std::uint64_t index = 0; index < 4000; ++index) {
    const AugmentationRecord record = run(stage, index).record;
    x += record.step_x < 0;
    y += record.step_y < 0;
    both += record.step_x < 0 && record.step_y < 0;
    EXPECT_EQ(record.x, record.step_x < 0 ? 7 : 0);
  }
  EXPECT_NEAR(x, 2000, 130);  // four standard deviations
  EXPECT_NEAR(y, 1000, 110);
  EXPECT_NEAR(both, 500, 84);
}

TEST_F(AugmentTest, ShiftsByEveryWholeNumberOfPixelsInItsRange) {
  params_.translate.x = {-4, 4};
  params_.translate.y = {0, 2};
  const Augment stage(params_, context_);
  std::map<int, int> x, y;
  for (std::uint64_t index = 0; index < 3600; ++index) {
    const AugmentationRecord record = run(stage, index).record;
    ++x[-record.x];
    ++y[-record.y];
  }
  ASSERT_EQ(x.size(), 9U);
  ASSERT_EQ(y.size(), 3U);
  EXPECT_EQ(x.begin()->first, -4);
  EXPECT_EQ(y.rbegin()->first, 2);
  for (const auto& [shift, count] : x) EXPECT_NEAR(count, 400, 80) << shift;
}

TEST_F(AugmentTest, EveryParameterKeepsItsOwnDraws) {
  params_.translate.x = {-4, 4};
  const Augment plain(params_, context_);
  params_.flip_y = 1;
  const Augment flipped(params_, context_);
  for (std::uint64_t index = 0; index < 50; ++index) EXPECT_EQ(run(plain, index).record.x, run(flipped, index).record.x);
}

TEST_F(AugmentTest, AlternatingFlipsShowEveryImageBothWaysInTurn) {
  params_.alternating_flip = true;
  const Augment stage(params_, context_);
  int flipped = 0;
  for (std::uint64_t index = 0; index < 4000; ++index) {
    const int first = run(stage, index, 0).record.step_x;
    flipped += first < 0;
    for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
      ASSERT_EQ(run(stage, index, epoch).record.step_x, epoch % 2 == 0 ? first : -first);
    }
  }
  EXPECT_NEAR(flipped, 2000, 130);
}

TEST_F(AugmentTest, AlternatingFlipsAreChosenBySeedAndAreInTheHash) {
  params_.alternating_flip = true;
  const Augment one(params_, context_);
  context_.seed = 2;
  const Augment two(params_, context_);
  int same = 0;
  for (std::uint64_t index = 0; index < 1000; ++index) same += run(one, index).record.step_x == run(two, index).record.step_x;
  EXPECT_NEAR(same, 500, 64);
  params_.alternating_flip = false;
  const Augment none(params_, context_);
  EXPECT_NE(run(two, 0).hash, run(none, 0).hash);
}

TEST_F(AugmentTest, CentresTheWindowInALargerImage) {
  params_.translate.x = {1, 1};
  params_.flip_y = 1;
  const Augment stage(params_, context_);
  const AugmentationRecord record = run(stage, 0, 0, {12, 10, 1}).record;
  EXPECT_EQ(record.x, 1 - 1);      // (10 - 8) / 2, and one to the right
  EXPECT_EQ(record.y, 2 + 8 - 1);  // (12 - 8) / 2, from the bottom up
  EXPECT_EQ(record.step_y, -1);
}

TEST_F(AugmentTest, TwoStagesInARowAddUp) {
  params_.translate.x = {3, 3};
  params_.flip_x = 1;
  Augment stage(params_, context_);
  Sample sample = run(stage, 0, 0, {12, 12, 1});
  Draw draw(1, sample.key, 0);
  stage.process(sample, draw);
  // Mirrored, 3 to the right, mirrored back, 3 to the right: back to the original place, and the window was centred once.
  EXPECT_EQ(sample.record.x, 2);
  EXPECT_EQ(sample.record.step_x, 1);
}

TEST_F(AugmentTest, LeavesBorderAndFillInTheRecord) {
  params_.border = "reflect";
  EXPECT_EQ(run(Augment(params_, context_), 0).record.border, Border::reflect);
  params_.border = "edge";
  params_.fill = {7};
  const AugmentationRecord same = run(Augment(params_, context_), 0).record;
  EXPECT_EQ(same.border, Border::edge);
  for (const std::uint8_t value : same.fill) EXPECT_EQ(value, 7);
  params_.fill = {1, 2, 3};
  context_.image.channels = 3;
  EXPECT_EQ(run(Augment(params_, context_), 0).record.fill[2], 3);
  params_.fill = {1, 2};
  EXPECT_THROW(Augment(params_, context_), Error);
}

TEST_F(AugmentTest, WithoutANetworkTheWindowIsTheImage) {
  context_.window = {};
  params_.flip_x = 1;
  EXPECT_EQ(run(Augment(params_, context_), 0, 0, {5, 6, 1}).record.x, 5);
}

TEST_F(AugmentTest, HugeShiftsOfHugeImagesFitIntoTheRecord) {
  const int most = Augment::kLargest;
  params_.translate.x = {static_cast<double>(most), static_cast<double>(most)};
  params_.flip_x = 1;
  const AugmentationRecord record = run(Augment(params_, context_), 0, 0, {1, most, 1}).record;
  EXPECT_EQ(record.x, (most - 8) / 2 + 7 + most);
  EXPECT_THROW(run(Augment(params_, context_), 0, 0, {1, most + 1, 1}), Error);
}

// The sum of such shifts once wrapped around in 16 bits.
TEST_F(AugmentTest, HugeShiftsOfSeveralStagesAddUp) {
  params_.translate.x = {Augment::kLargest, Augment::kLargest};
  params_.border = "edge";
  const Augment stage(params_, context_);
  Sample sample;
  sample.reset({0, 0, 0, 0}, {});
  const Image image = sample.new_image(kShape);
  for (int at = 0; at < kShape.height * kShape.width; ++at) image.data[at] = static_cast<std::uint8_t>(at % kShape.width);
  sample.set_image(image);
  for (int times = 0; times < 3; ++times) {
    Draw draw(context_.seed, sample.key, hash_text(context_.name));
    const_cast<Augment&>(stage).process(sample, draw);
  }
  apply_pending(sample, kShape);
  const std::uint8_t* const shown = sample.image().data;
  EXPECT_TRUE(std::all_of(shown, shown + kShape.bytes(), [](std::uint8_t pixel) { return pixel == 0; }))
      << "the left edge: " << fmt::format("{}", fmt::join(shown, shown + kShape.width, " "));
}

TEST_F(AugmentTest, ReadsItsTable) {
  Value translate;
  translate.set("x", Value(Array{Value(std::int64_t{-2}), Value(std::int64_t{2})}));
  testkit::Harness harness(StageTypeAccess::make<Augment>(), testkit::table({{"translate", translate}, {"flip_x", Value(1.0)}}),
                           context_);
  const Ref<Batch> batch = testkit::make_batch(4, kShape);
  for (Sample& sample : batch->samples) sample.set_image(sample.new_image(kShape));
  harness.feed(testkit::whole(batch));
  ASSERT_EQ(harness.take().size(), 1U);
  for (Sample& sample : batch->samples) {
    EXPECT_EQ(sample.record.step_x, -1);
    EXPECT_NE(sample.hash, 0U);
  }
}

// ColorJitter(hue=0.1) and RandomRotation(15) of torchvision are ranges; here one number is that number.
TEST_F(AugmentTest, OneNumberForAllImagesIsWarnedOf) {
  testkit::RecordedRun run;
  context_.run = &run;
  params_ = {};
  params_.rotate = params_.shear_x = params_.shear_y = Range{15, 15};
  params_.scale = params_.scale_x = params_.scale_y = Range{0.25, 0.25};
  params_.brightness = params_.contrast = params_.saturation = Range{0.25, 0.25};
  params_.hue = Range{0.125, 0.125};
  params_.translate.x = params_.translate.y = {2, 2};
  const Augment stage(params_, context_);
  const std::string said = fmt::format("{}", fmt::join(run.warnings(), "\n"));
  EXPECT_EQ(run.warnings().size(), 12U) << said;
  for (const char* range :
       {"rotate = [-15, 15]", "shear_x = [-15, 15]", "shear_y = [-15, 15]", "scale = [0.75, 1.25]", "scale_x = [0.75, 1.25]",
        "scale_y = [0.75, 1.25]", "brightness = [0.75, 1.25]", "contrast = [0.75, 1.25]", "saturation = [0.75, 1.25]",
        "hue = [-0.125, 0.125]", "translate.x = [-2, 2]", "translate.y = [-2, 2]"})
    EXPECT_NE(said.find(range), std::string::npos) << said;
  params_ = {};
  params_.rotate = Range{90, 90};
  params_.scale = Range{0.9, 0.9};
  params_.hue = Range{0, 0};
  const Augment meant(params_, context_);
  EXPECT_EQ(run.warnings().size(), 12U);
}

TEST_F(AugmentTest, NoiseOfAnotherScaleIsWarnedOf) {
  testkit::RecordedRun run;
  context_.run = &run;
  params_.noise.emplace().deviation = {0, 0.1};
  const Augment stage(params_, context_);
  ASSERT_EQ(run.warnings().size(), 1U);
  EXPECT_NE(run.warnings()[0].find("noise.deviation is at most 0.1 of 255 grey levels"), std::string::npos) << run.warnings()[0];
  params_.noise->deviation = {0, 10};
  const Augment usual(params_, context_);
  EXPECT_EQ(run.warnings().size(), 1U);
}

TEST_F(AugmentTest, NamesItsMistakes) {
  params_.translate.x = {-1.5, 2};
  EXPECT_MESSAGE(mistake());
  params_.translate = {};
  params_.translate.y = {4, -4};
  EXPECT_MESSAGE(mistake());
  params_.translate = {};
  params_.fill = {256};
  EXPECT_EQ(mistake(), "fill: expected 0 ... 255, found 256");
  params_.fill = {};
  EXPECT_MESSAGE(mistake());
  params_.fill = {0};
  params_.alternating_flip = true;
  params_.flip_x = 0.5;
  EXPECT_MESSAGE(mistake());
}

}  // namespace
}  // namespace millrace
