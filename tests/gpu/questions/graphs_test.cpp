// What results are compared with, and that cuDNN takes every graph; the latter for a described device ("deviceless"), without
// one.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engines.h"
#include "millrace/error.h"

namespace millrace::gpu {
namespace {

constexpr ConvolutionCase kSmall{2, 3, 5, 4, 3, 1}, kStrided{2, 3, 6, 4, 3, 2}, kPoint{2, 3, 4, 5, 1, 1};

double dot_with(GraphKind kind, const ConvolutionCase& shape, std::int64_t count, Tensor with) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += reference_at(kind, shape, i) * number_at(seed_of(with), i);
  return sum;
}

// <x * w, dy> = <x, dx> = <w, dw>: each gradient is the transpose of the same map, so none of the three can be wrong alone.
TEST(Reference, GradientsAreTheTransposesOfForward) {
  for (const ConvolutionCase& shape : {kSmall, kStrided, kPoint}) {
    const double forward = dot_with(GraphKind::forward, shape, shape.y_count(), Tensor::y);
    EXPECT_NEAR(dot_with(GraphKind::data_gradient, shape, shape.x_count(), Tensor::x), forward, 1e-9) << text_of(shape);
    EXPECT_NEAR(dot_with(GraphKind::weight_gradient, shape, shape.w_count(), Tensor::w), forward, 1e-9) << text_of(shape);
    EXPECT_NE(forward, 0);
  }
}

// Of one input pixel, one weight and one output, by hand.
TEST(Reference, AddsAndActivatesWhatTheGraphSays) {
  const ConvolutionCase one{1, 1, 1, 1, 1, 1};
  const auto number = [](Tensor tensor) { return double{number_at(seed_of(tensor), 0)}; };
  const double y = number(Tensor::x) * number(Tensor::w), biased = y + number(Tensor::bias);
  const double dx = number(Tensor::y) * number(Tensor::w);
  EXPECT_DOUBLE_EQ(reference_at(GraphKind::forward, one, 0), y);
  EXPECT_DOUBLE_EQ(reference_at(GraphKind::bias_relu, one, 0), biased > 0 ? biased : 0);
  EXPECT_NEAR(reference_at(GraphKind::bias_gelu, one, 0), biased * 0.5 * std::erfc(-biased / std::sqrt(2)), 1e-12);
  EXPECT_NEAR(reference_at(GraphKind::bias_gelu_tanh, one, 0), reference_at(GraphKind::bias_gelu, one, 0), 1e-3);
  EXPECT_DOUBLE_EQ(reference_at(GraphKind::data_gradient_add, one, 0), dx + number(Tensor::addend));
  EXPECT_DOUBLE_EQ(reference_at(GraphKind::data_gradient_beta, one, 0), dx + number(Tensor::x));
  const double scaled = std::max(number(Tensor::x) * number(Tensor::scale) + number(Tensor::bias), 0.0);
  EXPECT_DOUBLE_EQ(reference_at(GraphKind::scaled_stats, one, 0), scaled * number(Tensor::w));
}

TEST(Reference, NumbersAreExactInBf16AndBalanced) {
  double sum = 0;
  for (std::int64_t i = 0; i < 100000; ++i) {
    const float value = number_at(7, i);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    ASSERT_EQ(bits & 0xffff, 0u) << value;
    ASSERT_LT(std::fabs(value), 1);
    sum += value;
  }
  EXPECT_LT(std::fabs(sum), 1000) << "of 100000 with a deviation of 0.58: five deviations are 913";
  EXPECT_NE(number_at(7, 0), number_at(8, 0));
}

TEST(Reference, ANumberThatIsNoneIsNotForgotten) {
  double largest = 0;
  for (const double value : {1.0, 3.0, 2.0}) largest = larger_or_nan(largest, value);
  EXPECT_EQ(largest, 3);
  for (const double value : {std::nan(""), 5.0}) largest = larger_or_nan(largest, value);
  EXPECT_TRUE(std::isnan(largest));
}

TEST(Reference, PlacesReachFromTheFirstToTheLast) {
  const auto places = sample_places(1000, 11);
  EXPECT_EQ(places.size(), 11u);
  EXPECT_EQ(places.front(), 0);
  EXPECT_EQ(places.back(), 999);
  EXPECT_EQ(sample_places(3, 11), (std::vector<std::int64_t>{0, 1, 2}));
}

class DevicelessGraphs : public testing::Test {
 protected:
  void SetUp() override {
    try {
      api_ = std::make_unique<CudnnApi>();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    if (api_->version() < kDevicelessSince) GTEST_SKIP() << "cuDNN " << api_->version() << " needs a device";
    properties_ = std::make_unique<Descriptor>(described_device(*api_));
  }
  CudnnTarget target() const { return {.handle = nullptr, .properties = properties_.get()}; }

  std::unique_ptr<CudnnApi> api_;
  std::unique_ptr<Descriptor> properties_;
};

constexpr ConvolutionCase kReal{64, 64, 56, 64, 3, 1};

TEST_F(DevicelessGraphs, CudnnHasWordsForAll) {
  for (int kind = 0; kind <= static_cast<int>(GraphKind::weight_gradient_f32); ++kind) {
    for (const Numbers type : {Numbers::bf16, Numbers::f16}) {
      const OperationGraph graph(*api_, static_cast<GraphKind>(kind), kReal, type, target());
      EXPECT_GT(engines_of(*api_, graph, target()).known, 0) << graph.about();
    }
  }
}

TEST_F(DevicelessGraphs, EnginesAreListedAndMadeReady) {
  for (const GraphKind kind : {GraphKind::forward, GraphKind::data_gradient, GraphKind::data_gradient_beta}) {
    const OperationGraph graph(*api_, kind, kReal, Numbers::bf16, target());
    Engines engines = engines_of(*api_, graph, target());
    ASSERT_GE(engines.candidates.size(), engines.supporting.size()) << graph.about();
    ASSERT_FALSE(engines.supporting.empty()) << graph.about();
    int ready = 0;
    for (Candidate& candidate : engines.candidates) {
      if (candidate.compiled) continue;
      ready += make_ready(*api_, graph, target(), candidate) ? 1 : 0;
      EXPECT_TRUE(candidate.report.contains("finalise_ms")) << candidate.choice;
      EXPECT_TRUE(candidate.report.contains("workspace") || candidate.report.contains("why")) << candidate.choice;
      EXPECT_EQ(candidate.report["engine"], candidate.engine);
    }
    EXPECT_GT(ready, 5) << graph.about();
  }
}

// A graph that no engine takes is worth no question. (The engines for bf16 are listed with a driver only.)
TEST_F(DevicelessGraphs, StatisticsHaveEnginesInHalfPrecision) {
  for (const GraphKind kind : {GraphKind::forward_stats, GraphKind::scaled_stats}) {
    const OperationGraph graph(*api_, kind, kReal, Numbers::f16, target());
    EXPECT_FALSE(engines_of(*api_, graph, target()).supporting.empty()) << graph.about();
  }
}

TEST_F(DevicelessGraphs, EveryEngineSupportsOrSaysWhyNot) {
  const OperationGraph graph(*api_, GraphKind::forward_stats, kReal, Numbers::f16, target());
  const Engines engines = engines_of(*api_, graph, target());
  std::size_t refusing = 0;
  for (const auto& [reason, numbers] : engines.refusals.items()) {
    EXPECT_TRUE(reason.starts_with("CUDNN_STATUS_")) << reason;
    refusing += numbers.size();
  }
  EXPECT_EQ(static_cast<std::int64_t>(engines.supporting.size() + refusing), engines.known);
}

}  // namespace
}  // namespace millrace::gpu
