#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu};

TEST(Gelu, StaysWithinThreeHalvesOfTenToTheMinusSevenOnEveryInstructionSet) {
  constexpr std::int64_t kPoints = 400000;
  for (const Kernels* const* kernels = all_kernels(); *kernels != nullptr; ++kernels) {
    SCOPED_TRACE((*kernels)->instruction_set);
    Tensor x(Layout::blocked, DataType::f32, 1, 16, 1, kPoints / 16), y = x, one = x;
    x.each([&](auto n, auto c, auto pixel) {
      x.set(n, c, pixel, -10 + 20.0 * static_cast<double>(pixel * 16 + c) / kPoints);
      one.set(n, c, pixel, 1);
    });
    (*kernels)->activate(Activation::gelu, x.map, y.map);
    double worst = 0, worst_slope = 0;
    x.each([&](auto n, auto c, auto pixel) {
      const double at = x.at(n, c, pixel);
      worst = std::max(worst, std::abs(y.at(n, c, pixel) - at * normal_cdf(at)) / std::max(1.0, std::abs(at)));
    });
    (*kernels)->activate_backward(Activation::gelu, x.map, one.map, &y.map, nullptr);
    x.each([&](auto n, auto c, auto pixel) {
      worst_slope = std::max(worst_slope, std::abs(y.at(n, c, pixel) - reference_slope(Activation::gelu, x.at(n, c, pixel))));
    });
    EXPECT_LT(worst, 1.5e-7);  // half an ulp of the result included
    EXPECT_LT(worst_slope, 1.5e-7);
  }
}

TEST(Gelu, HandlesWhatIsNotFinite) {
  for (const Kernels* const* kernels = all_kernels(); *kernels != nullptr; ++kernels) {
    Tensor x(Layout::blocked, DataType::f32, 1, 16, 1, 1), y = x;
    x.fill(1);
    x.set(0, 0, 0, std::nan(""));
    x.set(0, 1, 0, INFINITY);
    x.set(0, 2, 0, 1e30);
    x.set(0, 3, 0, -1e30);
    (*kernels)->activate(Activation::gelu, x.map, y.map);
    EXPECT_TRUE(std::isnan(y.at(0, 0, 0)));
    EXPECT_EQ(y.at(0, 1, 0), INFINITY);
    EXPECT_EQ(y.at(0, 2, 0), x.at(0, 2, 0));
    EXPECT_EQ(y.at(0, 3, 0), 0);
  }
}

TEST(Activate, MatchesTheReferenceForwardAndBackward) {
  for_each_case([](const Case& c) {
    for (const Activation activation : kActivations) {
      Tensor x(c, 3, 5, 7), dy(c, 3, 5, 7), y(c, 3, 5, 7), dx(c, 3, 5, 7);
      x.fill(1);
      dy.fill(2);
      std::vector<float> d_bias(static_cast<std::size_t>(c.channels), -1.0F), d_bias_alone = d_bias;
      c.kernels.activate(activation, x.map, y.map);
      c.kernels.activate_backward(activation, x.map, dy.map, &dx.map, d_bias.data());
      c.kernels.activate_backward(activation, x.map, dy.map, nullptr, d_bias_alone.data());
      const auto slope = [&](auto n, auto k, auto p) { return dy.at(n, k, p) * reference_slope(activation, x.at(n, k, p)); };
      y.expect_near([&](auto n, auto k, auto p) { return reference_activation(activation, x.at(n, k, p)); }, c.tolerance());
      dx.expect_near(slope, c.tolerance());
      std::vector<double> sums(d_bias.size());
      dx.each([&](auto n, auto k, auto p) { sums[static_cast<std::size_t>(k)] += slope(n, k, p); });
      for (std::size_t k = 0; k < sums.size(); ++k) EXPECT_NEAR(d_bias[k], sums[k], 1e-4);
      for (std::size_t k = 0; k < sums.size(); ++k) EXPECT_NEAR(d_bias_alone[k], sums[k], 1e-4);
      c.kernels.activate_backward(activation, x.map, dy.map, &dy.map, nullptr);
      EXPECT_TRUE(dy.same_bits(dx)) << "in place";
    }
  });
}

TEST(Elementwise, AddsScalesAndClears) {
  for_each_case([](const Case& c) {
    Tensor a(c, 2, 9, 11), b(c, 2, 9, 11), y(c, 2, 9, 11), z(c, 2, 9, 11);
    a.fill(3);
    b.fill(4);
    c.kernels.add(a.map, b.map, y.map);
    y.expect_near([&](auto n, auto k, auto p) { return a.at(n, k, p) + b.at(n, k, p); }, c.tolerance());
    c.kernels.add(a.map, b.map, b.map);
    EXPECT_TRUE(b.same_bits(y)) << "in place";
    c.kernels.scale(-0.25F, a.map, y.map);
    y.expect_near([&](auto n, auto k, auto p) { return -0.25 * a.at(n, k, p); }, c.tolerance());
    c.kernels.fill_zero(z.map);
    z.expect_near([](auto, auto, auto) { return 0.0; }, 0);
  });
}

TEST(Activate, IsTheSameForAnyNumberOfThreads) {
  for_each_case([](const Case& c) {
    Tensor x(c, 5, 20, 30), dy(c, 5, 20, 30);
    x.fill(5);
    dy.fill(6);
    std::vector<float> d_bias(static_cast<std::size_t>(c.channels));
    expect_same_for_any_team([&] {
      Tensor dx(c, 5, 20, 30);
      c.kernels.activate_backward(Activation::gelu, x.map, dy.map, &dx.map, d_bias.data());
      return std::pair(bytes_of(dx), d_bias);
    });
  });
}

TEST(Kernels, EveryInstructionSetOfThisProcessorIsOffered) {
  ASSERT_EQ(kernels_unavailable_reason(), nullptr);
  EXPECT_EQ(&kernels(), *all_kernels());
}

}  // namespace
}  // namespace millrace::cpu
