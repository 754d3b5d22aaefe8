#include "clip_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "millrace/error.h"
#include "millrace/kernels/host_element.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
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
  EXPECT_EQ(values, (std::vector<float>{4, -4, 1}));  // 1, -1 and 0.25 after scaling
  clip.scale = &nothing;
  group_kernel<ClipByValue>.run_on_host(&clip, 0, 1);
  EXPECT_EQ(values, (std::vector<float>{4, -4, 1}));
}

// Parameters one after the other, each with padding of 0 at its end; the first begins at 5.
struct ParametersInABucket {
  explicit ParametersInABucket(const std::vector<std::int64_t>& the_sizes) : sizes(the_sizes), values(5, 1e6F) {
    std::mt19937_64 generator(5);
    std::normal_distribution<float> normal;
    of.begin[0] = 5;
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      for (std::int64_t i = 0; i < sizes[p]; ++i) values.push_back(normal(generator) * static_cast<float>(1 + p % 3));
      values.insert(values.end(), 3, 0.0F);
      of.add(sizes[p] + 3);
    }
    values.push_back(1e6F);
  }
  void bound(double limit, const float* scale) {
    std::vector<double> squares(static_cast<std::size_t>(of.chunks()));
    SquaresOfParameters sum;
    sum.of = of;
    sum.gradients = values.data();
    sum.squares = squares.data();
    BoundParameters clip;
    clip.of = of;
    clip.gradients = values.data();
    clip.squares = squares.data();
    clip.limit = limit;
    clip.scale = scale;
    for (std::int64_t chunk = of.chunks(); chunk-- > 0;) group_kernel<SquaresOfParameters>.run_on_host(&sum, chunk, chunk + 1);
    for (std::int64_t chunk = of.chunks(); chunk-- > 0;) group_kernel<BoundParameters>.run_on_host(&clip, chunk, chunk + 1);
  }

  std::vector<std::int64_t> sizes;
  std::vector<float> values;
  ParameterChunks of;
};

TEST(ClipKernels, BoundTheNormOfEachParameterByItself) {
  const std::vector<std::int64_t> sizes = {1, 40, kChunkOfGradients - 3, 3 * kChunkOfGradients + 17, 200};
  for (const float scale : {1.0F, 0.5F}) {
    ParametersInABucket bucket(sizes);
    const std::vector<float> before = bucket.values;
    bucket.bound(30, scale == 1 ? nullptr : &scale);
    std::size_t at = 5, scaled = 0;
    for (const std::int64_t size : sizes) {
      double total = 0;
      for (std::int64_t i = 0; i < size; ++i) total += std::pow(static_cast<double>(before[at + static_cast<std::size_t>(i)]), 2);
      const double factor = std::min(1.0, 30 / (static_cast<double>(scale) * std::sqrt(total)));
      scaled += factor < 1 ? 1 : 0;
      for (std::int64_t i = 0; i < size; ++i, ++at) {
        const double expected = factor * static_cast<double>(before[at]);
        ASSERT_NEAR(bucket.values[at], expected, 1e-6 * std::abs(expected)) << size << " elements, " << i;
        if (factor == 1) {
          ASSERT_EQ(bucket.values[at], before[at]) << "within the limit nothing is rounded";
        }
      }
      for (int i = 0; i < 3; ++i, ++at) ASSERT_EQ(bucket.values[at], 0) << "padding";
    }
    EXPECT_GT(scaled, 1U);
    EXPECT_LT(scaled, sizes.size());
    EXPECT_EQ(bucket.values.front(), 1e6F) << "what lies before the parameters is not theirs";
    EXPECT_EQ(bucket.values.back(), 1e6F);
  }
}

TEST(ClipKernels, LeaveAParameterAloneWhoseNormIsNotFinite) {
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    ParametersInABucket bucket({4, 50});
    bucket.values[6] = wrong;
    const std::vector<float> before = bucket.values;
    bucket.bound(1e-3, nullptr);
    EXPECT_EQ(bucket.values[5], before[5]);
    EXPECT_EQ(std::isnan(bucket.values[6]), std::isnan(wrong));
    EXPECT_LT(std::abs(bucket.values[12]), 1e-3F) << "the other one is bounded";
  }
}

// One replica of a small network, with a bucket for each parameter.
class ClipGradientsTest : public testing::Test {
 protected:
  ClipGradientsTest() : network_(testkit::small_network({2, 2, 1}, 3, 2)), device_(testkit::make_plain_backend()->open(0, {})) {
    compile(1);
  }

  void compile(std::size_t bucket_bytes) {
    CompileOptions options;
    options.bucket_bytes = bucket_bytes;
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

  // All gradients of a step are `gradient`. Returns the output.
  std::vector<Packet> feed_step(std::uint64_t step, float gradient, const float* scale = nullptr) {
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
      bucket->scale = scale;
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
  StepContext context_;
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

TEST_F(ClipGradientsTest, WhatAnEarlierStageScalesIsMeasuredSoAndStaysScaled) {
  const float quarter = 0.25F;
  const double norm = norm_of(3) / 4;
  for (const double limit : {norm / 2, 2 * norm}) {
    testkit::Harness& harness = start(limit);
    for (const Packet& packet : feed_step(5, 3, &quarter)) {
      EXPECT_FLOAT_EQ(*static_cast<const GradientBucket&>(*packet.payload).scale, limit < norm ? 0.125F : 0.25F);
    }
    ASSERT_EQ(harness.run().scalars(5).size(), 1U);
    const auto [name, value] = *harness.run().scalars(5).begin();
    EXPECT_EQ(name, "gradient_norm.clip_gradients") << "the earlier stage may report the other one";
    EXPECT_NEAR(value, norm, 1e-6 * norm);
  }
}

TEST_F(ClipGradientsTest, AStepThatAnEarlierStageLeavesOutStaysLeftOut) {
  const float nothing = 0, wrong = std::numeric_limits<float>::quiet_NaN();
  start(1);
  for (const auto& [gradient, scale] : {std::pair{3.0F, &nothing}, {wrong, &nothing}, {3.0F, &wrong}}) {
    EXPECT_EQ(*static_cast<const GradientBucket&>(*feed_step(5, gradient, scale).at(0).payload).scale, 0);
  }
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

// More parameters than one kernel takes.
TEST_F(ClipGradientsTest, ByNormABucketMayHaveAnyNumberOfParameters) {
  Layer& layer = network_.layers.back();
  const Parameter like = network_.parameters[static_cast<std::size_t>(layer.parameters.back())];
  for (int extra = 0; extra < 2 * ParameterChunks::kMax; ++extra) {
    layer.parameters.push_back(static_cast<int>(network_.parameters.size()));
    network_.parameters.push_back(like);
  }
  compile(std::size_t{1} << 20);
  testkit::Harness& harness = start(table({{"norm", Value(1.0)}}));
  const Bucket& memory = replica_->buckets().front();
  ASSERT_GT(memory.parameters.size(), 2U * ParameterChunks::kMax);
  std::fill_n(memory.gradients, memory.elements, 3.0F);
  Ref<GradientBucket> bucket = make_ref<GradientBucket>();
  bucket->data = memory.gradients;
  bucket->elements = memory.elements;
  harness.feed(testkit::packet(std::move(bucket), 0));
  ASSERT_EQ(harness.take().size(), 1U);
  for (std::size_t p = 0; p < memory.parameters.size(); ++p) {
    const auto size = static_cast<double>(network_.parameters[static_cast<std::size_t>(memory.parameters[p])].shape.elements());
    EXPECT_NEAR(memory.gradients[memory.offsets[p]], std::min(3.0, 1 / std::sqrt(size)), 1e-6) << p;
  }
}

TEST_F(ClipGradientsTest, WithoutAKeyTheNormIsBoundedByOne) {
  start(table({}));
  EXPECT_FLOAT_EQ(*static_cast<const GradientBucket&>(*feed_step(0, 3).at(0).payload).scale, static_cast<float>(1 / norm_of(3)));
}

TEST_F(ClipGradientsTest, ALimitOfZeroIsAMistake) {
  EXPECT_THROW(start(0), Error);
  EXPECT_THROW(start(table({{"value", Value(0.0)}})), Error);
  EXPECT_THROW(start(table({{"norm", Value(0.0)}})), Error);
}

TEST_F(ClipGradientsTest, TwoWaysInOneStageAreAMistake) {
  EXPECT_THROW(start(table({{"global_norm", Value(1.0)}, {"value", Value(1.0)}})), Error);
  EXPECT_THROW(start(table({{"global_norm", Value(1.0)}, {"norm", Value(1.0)}})), Error);
  EXPECT_MESSAGE(testkit::error_of([&] { start(table({{"norm", Value(1.0)}, {"value", Value(1.0)}})); }).what());
}

TEST_F(ClipGradientsTest, AWayInALaterTextTakesThePlaceOfTheOther) {
  const Position option{std::make_shared<const std::string>("--set"), 0, 0};
  Value written = table({{"norm", Value(1.0)}, {"global_norm", Value(2.0, option)}});
  drop_overruled(StageTypeAccess::make<ClipGradients>().params, written,
                 [](const Position& text, const Position& key) { return text.file && !key.file; });
  EXPECT_EQ(written.find("norm"), nullptr);
  EXPECT_NE(written.find("global_norm"), nullptr);
}

}  // namespace
}  // namespace millrace
