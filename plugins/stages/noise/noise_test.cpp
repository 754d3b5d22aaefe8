#include "noise.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testkit/harness.h"

namespace millrace {
namespace {

class NoiseTest : public testing::Test {
 protected:
  NoiseTest() {
    context_.seed = 3;
    context_.name = "noise";
  }
  void put(Noise& stage, std::uint64_t epoch, std::uint64_t index) {
    const SampleKey key{.epoch = epoch, .position = index, .index = index};
    sample_.reset(key, {});
    EXPECT_EQ(sample_.noise, 0);
    Draw draw(context_.seed, key, hash_text(context_.name));
    stage.process(sample_, draw);
  }
  std::uint32_t seed_of(Noise& stage, std::uint64_t epoch, std::uint64_t index) {
    put(stage, epoch, index);
    return sample_.noise_seed;
  }

  StepContext context_;
  Noise::Params params_;
  Sample sample_;
};

TEST_F(NoiseTest, SaysWhatDevicesAreToAdd) {
  params_.deviation = {25, 25};
  Noise stage(params_, context_);
  put(stage, 0, 1);
  EXPECT_EQ(sample_.noise, 25);
  EXPECT_NE(seed_of(stage, 0, 1), seed_of(stage, 0, 2));
  EXPECT_NE(seed_of(stage, 0, 1), seed_of(stage, 1, 1));
  EXPECT_TRUE(stage.is_random()) << "so that it does not stand before a cache";
}

TEST_F(NoiseTest, DrawsTheDeviationOfEachImage) {
  params_.deviation = {5, 55};
  Noise stage(params_, context_);
  double sum = 0;
  for (std::uint64_t index = 0; index < 400; ++index) {
    put(stage, 0, index);
    EXPECT_GE(sample_.noise, 5);
    EXPECT_LE(sample_.noise, 55);
    sum += static_cast<double>(sample_.noise);
  }
  EXPECT_NEAR(sum / 400, 30, 3);
}

TEST_F(NoiseTest, IsTheSameInAllEpochsWhereThatIsAskedFor) {
  params_ = {{0, 55}, false};
  Noise stage(params_, context_);
  put(stage, 0, 9);
  const float deviation = sample_.noise;
  const std::uint32_t seed = sample_.noise_seed;
  put(stage, 4, 9);
  EXPECT_EQ(sample_.noise, deviation);
  EXPECT_EQ(sample_.noise_seed, seed);
  EXPECT_NE(seed_of(stage, 0, 8), seed);
}

TEST_F(NoiseTest, HardlyAnyNoiseIsWarnedOf) {
  testkit::RecordedRun run;
  context_.run = &run;
  for (const double most : {25.0, 1.0, 0.1, 0.0}) {
    params_.deviation = {0, most};
    const Noise stage(params_, context_);
  }
  ASSERT_EQ(run.warnings().size(), 2U);
  EXPECT_NE(run.warnings()[0].find("deviation is at most 0.1 of 255 grey levels"), std::string::npos) << run.warnings()[0];
  EXPECT_NE(run.warnings()[1].find("deviation is at most 0 of 255 grey levels"), std::string::npos) << run.warnings()[1];
}

TEST_F(NoiseTest, SurvivesStagesBehindIt) {
  params_.deviation = {25, 25};
  Noise stage(params_, context_);
  put(stage, 0, 1);
  const Image image = sample_.new_image({4, 4, 3});
  std::fill_n(image.data, image.shape.bytes(), std::uint8_t{9});
  sample_.set_image(image);
  sample_.record.flip_x(4);
  apply_pending(sample_, {4, 4, 3});
  EXPECT_EQ(sample_.noise, 25);
}

}  // namespace
}  // namespace millrace
