#include "clip_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "millrace/error.h"
#include "millrace/host_element.h"
#include "testkit/harness.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

using testkit::table;

double norm_by_kernels(const std::vector<float>& values) {
  std::vector<double> squares(static_cast<std::size_t>(chunks_of_gradients(static_cast<std::int64_t>(values.size()))));
  SumOfSquares sum;
  sum.gradients = values.data();
  sum.squares = squares.data();
  sum.elements = static_cast<std::int64_t>(values.size());
  const Kernel& kernel = group_kernel<SumOfSquares>;
  kernel.run_on_host(&sum, 0, kernel.units(&sum));
  ClipResult result;
  ClipByNorm clip;
  clip.squares = squares.data();
  clip.result = &result;
  clip.count = static_cast<std::int64_t>(squares.size());
  clip.limit = 1e9;
  group_kernel<ClipByNorm>.run_on_host(&clip, 0, 1);
  return static_cast<double>(result.norm);
}

TEST(ClipKernels, AddUpEverySquare) {
  std::mt19937_64 generator(3);
  std::normal_distribution<float> normal;
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{7}, std::int64_t{8}, std::int64_t{100}, kChunkOfGradients,
                                  kChunkOfGradients + 1, 3 * kChunkOfGradients - 5}) {
    std::vector<float> values(static_cast<std::size_t>(size));
    std::generate(values.begin(), values.end(), [&] { return normal(generator); });
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(norm_by_kernels(values), std::sqrt(squares), 1e-6 * std::sqrt(squares)) << size;
  }
}

TEST(ClipKernels, BoundEveryGradientAndKeepWhatIsNoNumber) {
  std::mt19937_64 generator(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(kChunkOfGradients) + 5);
  std::generate(values.begin(), values.end(), [&] { return normal(generator); });
  values[1] = std::numeric_limits<float>::infinity();
  values[2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = values;
  ClipByValue clip;
  clip.gradients = values.data();
  clip.elements = static_cast<std::int64_t>(values.size());
  clip.limit = 0.5F;
  const Kernel& kernel = group_kernel<ClipByValue>;
  kernel.run_on_host(&clip, 0, kernel.units(&clip));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == 2) continue;
    EXPECT_EQ(values[i], std::clamp(before[i], -0.5F, 0.5F)) << i;
  }
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(ClipKernels, BoundWhatAnEarlierStageScales) {
  std::vector<float> values = {8, -8, 1};
  const float scale = 0.25F, nothing = 0;
  ClipByValue clip;
  clip.gradients = values.data();
  clip.elements = static_cast<std::int64_t>(values.size());
  clip.limit = 1;
  clip.scale = &scale;
  group_kernel<ClipByValue>.run_on_host(&clip, 0, 1);
  EXPECT_EQ(values, (std::vector<float>{4, -4, 1}));  // 1, -1 and 0.25 when they are scaled
  clip.scale = &nothing;
  group_kernel<ClipByValue>.run_on_host(&clip, 0, 1);
  EXPECT_EQ(values, (std::vector<float>{4, -4, 1}));
}

// One replica of a small network, with a bucket for each parameter.
class ClipGradientsTest : public testing::Test {
 protected:
  ClipGradientsTest() : network_(testkit::small_network({2, 2, 1}, 3, 2)), device_(testkit::make_plain_backend()->open(0, {})) {
    CompileOptions options;
    options.bucket_bytes = 1;
    replica_ = device_->compile(network_, options);
    replica_->start();
    context_.graph = "train";
    context_.network = &network_;
    context_.replicas = {replica_.get()};
    context_.devices = {device_.get()};
    context_.replica = 0;
  }

  testkit::Harness& start(double global_norm) { return start(table({{"global_norm", Value(global_norm)}})); }
  testkit::Harness& start(const Value& parameters) {
    harness_ = std::make_unique<testkit::Harness>(StageTypeAccess::make<ClipGradients>(), parameters, context_);
    harness_->stage().open();
    return *harness_;
  }

  // All gradients of a step are `gradient`. Returns what came out.
  std::vector<Packet> feed_step(std::uint64_t step, float gradient) {
    const std::vector<Bucket>& buckets = replica_->buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_TRUE(harness_->take().empty()) << "before the last bucket has come";
      std::fill_n(buckets[b].gradients, buckets[b].elements, gradient);
      Ref<GradientBucket> bucket = make_ref<GradientBucket>();
      bucket->step = step;
      bucket->bucket = static_cast<int>(b);
      bucket->buckets = static_cast<int>(buckets.size());
      bucket->data = buckets[b].gradients;
      bucket->elements = buckets[b].elements;
      harness_->feed(testkit::packet(std::move(bucket), step));
    }
    return harness_->take();
  }
  double norm_of(float gradient) const {
    double elements = 0;
    for (const Bucket& bucket : replica_->buckets()) elements += static_cast<double>(bucket.elements);
    return std::sqrt(elements) * static_cast<double>(std::abs(gradient));
  }

  Network network_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Replica> replica_;
  StageContext context_;
  std::unique_ptr<testkit::Harness> harness_;
};

TEST_F(ClipGradientsTest, ScalesWhatIsBeyondTheLimitAndNothingElse) {
  testkit::Harness& harness = start(1);
  std::uint64_t step = 0;
  for (const float gradient : {3.0F, 0.001F, -0.5F}) {
    const std::vector<Packet> out = feed_step(step, gradient);
    ASSERT_EQ(out.size(), replica_->buckets().size());
    const double norm = norm_of(gradient);
    for (std::size_t b = 0; b < out.size(); ++b) {
      const auto& bucket = static_cast<const GradientBucket&>(*out[b].payload);
      EXPECT_EQ(bucket.bucket, static_cast<int>(b));
      ASSERT_NE(bucket.scale, nullptr);
      EXPECT_FLOAT_EQ(*bucket.scale, static_cast<float>(std::min(1.0, 1 / norm)));
      EXPECT_EQ(bucket.data[0], gradient) << "gradients stay as they are";
    }
    EXPECT_NEAR(harness.run().scalars(step).at("gradient_norm"), norm, 1e-6 * norm);
    ++step;
  }
  EXPECT_EQ(harness.output().holds(), 0);
}

TEST_F(ClipGradientsTest, AStepThatIsNotFiniteUpdatesNothingAndSaysSo) {
  testkit::Harness& harness = start(1);
  for (const float gradient : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<Packet> out = feed_step(6, gradient);
    EXPECT_EQ(*static_cast<const GradientBucket&>(*out.at(0).payload).scale, 0);
  }
  EXPECT_FALSE(std::isfinite(harness.run().scalars(6).at("gradient_norm"))) << "which the run looks at";
  EXPECT_EQ(*static_cast<const GradientBucket&>(*feed_step(7, 0.25F).at(0).payload).scale,
            static_cast<float>(1 / norm_of(0.25F)));
}

TEST_F(ClipGradientsTest, ByValueEachBucketGoesOnAtOnceWithItsGradientsBounded) {
  testkit::Harness& harness = start(table({{"value", Value(0.25)}}));
  const Bucket& memory = replica_->buckets().front();
  ASSERT_GE(memory.elements, 3U);
  std::fill_n(memory.gradients, memory.elements, 0.125F);
  memory.gradients[1] = 3;
  memory.gradients[2] = -3;
  Ref<GradientBucket> bucket = make_ref<GradientBucket>();
  bucket->buckets = static_cast<int>(replica_->buckets().size());
  bucket->data = memory.gradients;
  bucket->elements = memory.elements;
  harness.feed(testkit::packet(std::move(bucket), 0));
  const std::vector<Packet> out = harness.take();
  ASSERT_EQ(out.size(), 1U);
  const auto& bounded = static_cast<const GradientBucket&>(*out[0].payload);
  EXPECT_EQ(bounded.scale, nullptr);
  EXPECT_NE(bounded.ready.get(), nullptr) << "who reads the gradients waits for the bounds";
  EXPECT_EQ(bounded.data[0], 0.125F);
  EXPECT_EQ(bounded.data[1], 0.25F);
  EXPECT_EQ(bounded.data[2], -0.25F);
  EXPECT_TRUE(harness.run().scalars(0).empty());
}

TEST_F(ClipGradientsTest, WithoutAKeyTheNormIsBoundedByOne) {
  start(table({}));
  EXPECT_FLOAT_EQ(*static_cast<const GradientBucket&>(*feed_step(0, 3).at(0).payload).scale, static_cast<float>(1 / norm_of(3)));
}

TEST_F(ClipGradientsTest, ALimitOfZeroIsAMistake) {
  EXPECT_THROW(start(0), Error);
  EXPECT_THROW(start(table({{"value", Value(0.0)}})), Error);
}

TEST_F(ClipGradientsTest, TwoWaysInOneStageAreAMistake) {
  EXPECT_THROW(start(table({{"global_norm", Value(1.0)}, {"value", Value(1.0)}})), Error);
}

}  // namespace
}  // namespace millrace
