#include "mix_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/batch_input.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

constexpr ImageShape kImage{8, 6, 3}, kWindow{6, 4, 3};
constexpr std::uint32_t kCount = 6;

class MixImagesTest : public testing::Test {
 protected:
  MixImagesTest() {
    context_.seed = 1;
    context_.name = "mix_images";
  }

  // Every slot has one level, 10 * (slot + 1), and its number as label.
  static Ref<Batch> flat_batch(std::uint64_t step = 0, ImageShape image = kImage, ImageShape window = kWindow) {
    Ref<Batch> batch = testkit::make_batch(kCount, image, window);
    batch->step = step;
    for (std::uint32_t slot = 0; slot < kCount; ++slot) {
      std::memset(batch->change_colours() + slot * image.bytes(), static_cast<int>(10 * (slot + 1)), image.bytes());
      batch->labels[slot] = static_cast<std::int32_t>(slot);
    }
    return batch;
  }
  void mix(const Ref<Batch>& batch) {
    testkit::Harness harness(StageTypeAccess::make<MixImages>(), table_, context_);
    harness.feed(testkit::whole(batch));
    ASSERT_EQ(harness.take().size(), 1U);
  }
  static std::vector<std::uint8_t> seen(const Batch& batch, std::uint32_t slot) {
    std::vector<std::uint8_t> out(batch.window.bytes());
    apply_record(batch.records[slot], {const_cast<std::uint8_t*>(batch.pixels) + slot * batch.image.bytes(), batch.image},
                 batch.window, out.data());
    return out;
  }
  static Value rule(double chance, double alpha) { return testkit::table({{"chance", Value(chance)}, {"alpha", Value(alpha)}}); }

  StepContext context_;
  Value table_;
};

TEST_F(MixImagesTest, ChangesNothingByChance) {
  table_ = testkit::table({{"mixup", rule(0, 1)}});
  const Ref<Batch> batch = flat_batch(), same = flat_batch();
  mix(batch);
  EXPECT_EQ(std::memcmp(batch->pixels, same->pixels, kCount * kImage.bytes()), 0);
  for (std::uint32_t slot = 0; slot < kCount; ++slot) EXPECT_EQ(batch->shares[slot], 1);
}

TEST_F(MixImagesTest, MixupBlendsPixelsByTheLabelsShares) {
  table_ = testkit::table({{"mixup", rule(1, 1)}});
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Ref<Batch> batch = flat_batch(step);
    mix(batch);
    for (std::uint32_t slot = 0; slot < kCount; ++slot) {
      const double share = batch->shares[slot], own = 10.0 * (slot + 1), other = 10.0 * (batch->second_labels[slot] + 1);
      ASSERT_NE(batch->second_labels[slot], batch->labels[slot]);
      for (const std::uint8_t level : seen(*batch, slot)) ASSERT_NEAR(level, share * own + (1 - share) * other, 0.51);
    }
  }
}

TEST_F(MixImagesTest, CutmixPastesAsMuchAsTheSharesSay) {
  table_ = testkit::table({{"cutmix", rule(1, 1)}});
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Ref<Batch> batch = flat_batch(step);
    mix(batch);
    for (std::uint32_t slot = 0; slot < kCount; ++slot) {
      int own = 0, other = 0;
      for (const std::uint8_t level : seen(*batch, slot)) {
        own += level == 10 * (slot + 1);
        other += level == 10 * (batch->second_labels[slot] + 1);
      }
      ASSERT_EQ(own + other, 6 * 4 * 3);
      ASSERT_NEAR(batch->shares[slot], own / 72.0, 1e-6);
    }
  }
}

TEST_F(MixImagesTest, DrawsAnotherShareForEveryBatchAndTheSameForTheSame) {
  table_ = testkit::table({{"mixup", rule(1, 1)}});
  std::vector<float> shares;
  for (std::uint64_t step = 0; step < 10; ++step) {
    const Ref<Batch> one = flat_batch(step), two = flat_batch(step);
    mix(one);
    mix(two);
    EXPECT_EQ(one->shares[0], two->shares[0]);
    EXPECT_EQ(one->second_labels[0], two->second_labels[0]);
    EXPECT_NE(one->stream_hash, 0U);
    EXPECT_EQ(one->stream_hash, two->stream_hash);
    shares.push_back(one->shares[0]);
  }
  std::sort(shares.begin(), shares.end());
  EXPECT_GE(std::unique(shares.begin(), shares.end()) - shares.begin(), 8);
}

TEST_F(MixImagesTest, TakesEachRuleAsOftenAsItsChanceSays) {
  table_ = testkit::table({{"mixup", rule(0.25, 0.5)}, {"cutmix", rule(0.5, 1)}});
  int mixed = 0, blended = 0;
  for (std::uint64_t step = 0; step < 600; ++step) {
    const Ref<Batch> batch = flat_batch(step);
    mix(batch);
    mixed += batch->second_labels[0] >= 0;
    bool pure = true;
    for (const std::uint8_t level : seen(*batch, 0)) pure = pure && level % 10 == 0;
    blended += !pure;
  }
  EXPECT_NEAR(mixed, 450, 45);
  EXPECT_NEAR(blended, 130, 50);  // excluding those whose share is nearly 0 or 1, or whose blend is a multiple of ten
}

TEST_F(MixImagesTest, ExecutesRecordsFirst) {
  // Without mixing different pictures, the network's view must not change.
  const Ref<Batch> batch = testkit::make_batch(kCount, kImage, kWindow);
  testkit::fill_at_random(*batch, 10, 3);
  std::vector<std::vector<std::uint8_t>> before;
  for (std::uint32_t slot = 0; slot < kCount; ++slot) {
    AugmentationRecord& record = batch->records[slot];
    record.x = record.y = 1;  // the middle
    if (slot % 2 == 0) record.flip_x(kWindow.width);
    if (slot % 3 == 0) record.flip_y(kWindow.height);
    record.translate(static_cast<int>(slot) - 2, 2 - static_cast<int>(slot));
    record.border = Border::reflect;
    before.push_back(seen(*batch, slot));
  }
  execute_records(*batch);
  for (std::uint32_t slot = 0; slot < kCount; ++slot) EXPECT_EQ(seen(*batch, slot), before[slot]) << slot;
  execute_records(*batch);
  for (std::uint32_t slot = 0; slot < kCount; ++slot) EXPECT_EQ(seen(*batch, slot), before[slot]) << slot;
}

TEST_F(MixImagesTest, MixesWithWhatThePartnerWasBefore) {
  for (std::uint32_t shift = 1; shift < kCount; ++shift) {
    const Ref<Batch> batch = flat_batch();
    std::vector<std::uint8_t> first(kImage.bytes());
    std::uint32_t calls = 0;
    for_each_pair(*batch, shift, first.data(), [&](std::uint32_t slot, std::uint32_t partner, const std::uint8_t* other) {
      EXPECT_EQ(partner, (slot + shift) % kCount);
      EXPECT_EQ(other[0], 10 * (partner + 1));
      batch->change_pixels()[slot * kImage.bytes()] = 255;
      ++calls;
    });
    EXPECT_EQ(calls, kCount);
  }
}

TEST_F(MixImagesTest, NobodyKnowsWhereTheyComeFromOnceMixed) {
  table_ = testkit::table({{"cutmix", rule(0, 1)}});
  const Ref<Batch> batch = flat_batch();
  batch->source_maps[1] = {9, 9, {}};
  mix(batch);
  EXPECT_TRUE(seen_source(*batch, 1).is_known());
  table_ = testkit::table({{"cutmix", rule(1, 1)}});
  mix(batch);
  for (std::uint32_t slot = 0; slot < kCount; ++slot) EXPECT_FALSE(seen_source(*batch, slot).is_known());
}

TEST_F(MixImagesTest, LeavesSlotsWithoutWeightAlone) {
  table_ = testkit::table({{"mixup", rule(1, 1)}});
  for (std::uint64_t step = 0; step < 10; ++step) {
    const Ref<Batch> batch = flat_batch(step);
    batch->weights[2] = 0;
    mix(batch);
    EXPECT_EQ(batch->shares[2], 1);
    EXPECT_EQ(seen(*batch, 2)[0], 30);
    for (std::uint32_t slot = 0; slot < kCount; ++slot) EXPECT_NE(batch->second_labels[slot], 2);
  }
}

TEST_F(MixImagesTest, ABatchOfOneStaysAsItIs) {
  table_ = testkit::table({{"mixup", rule(1, 1)}});
  const Ref<Batch> batch = flat_batch();
  batch->count = 1;
  mix(batch);
  EXPECT_EQ(batch->shares[0], 1);
  EXPECT_EQ(batch->stream_hash, 0U);
}

TEST(Beta, HasItsMoments) {
  for (const double alpha : {0.1, 0.5, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20'000;
    for (int i = 0; i < kDraws; ++i) {
      Draw draw(3, {0, static_cast<std::uint64_t>(i), 0, 0}, 1);
      const double value = draw_beta(draw, alpha);
      ASSERT_TRUE(value >= 0 && value <= 1);
      sum += value;
      squares += (value - 0.5) * (value - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
  }
  Draw draw(1, {}, 1);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(std::isnan(draw_beta(draw, 0.001)));
}

TEST_F(MixImagesTest, NamesItsMistakes) {
  const auto mistake = [&] {
    try {
      testkit::Harness harness(StageTypeAccess::make<MixImages>(), table_, context_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return std::string("nothing was thrown");
  };
  table_ = testkit::table({{"mixup", rule(0.75, 1)}, {"cutmix", rule(0.5, 1)}});
  EXPECT_MESSAGE(mistake());
  table_ = {};
  EXPECT_MESSAGE(mistake());
  table_ = testkit::table({{"mixup", Value()}, {"cutmix", Value()}});  // each would mix every batch
  EXPECT_MESSAGE(mistake());
  table_ = testkit::table({{"mixup", Value()}});
  context_.graph = "train";
  context_.target.kind = TargetSpec::Kind::classes;
  EXPECT_MESSAGE(mistake());
}

}  // namespace
}  // namespace millrace
