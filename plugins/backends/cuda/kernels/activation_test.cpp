#include "activation.h"

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

constexpr Activation kAll[] = {Activation::none, Activation::relu, Activation::gelu};

double expected_value(Activation kind, double x) {
  if (kind == Activation::relu) return x > 0 ? x : 0;
  return kind == Activation::gelu ? x * normal_cdf(x) : x;
}
double expected_slope(Activation kind, double x) {
  if (kind == Activation::relu) return x > 0 ? 1 : 0;
  return kind == Activation::gelu ? normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI) : 1;
}

TEST(Gelu, IsExact) {
  for (double x = -12; x < 12; x += 0.0037) {
    const auto single = static_cast<float>(x);
    const double exact = static_cast<double>(single);
    const double limit = 1.5e-7 * std::max(1.0, std::abs(x));
    ASSERT_NEAR(activate(Activation::gelu, single), expected_value(Activation::gelu, exact), limit);
    ASSERT_NEAR(activation_slope(Activation::gelu, single), expected_slope(Activation::gelu, exact), 3e-7);
  }
}

TEST(Relu, LetsNanThrough) {
  EXPECT_TRUE(std::isnan(activate(Activation::relu, NAN)));
  EXPECT_EQ(activation_slope(Activation::relu, 0), 0);
}

template <class T>
using Activations = TypedElement<T>;
TYPED_TEST_SUITE(Activations, ElementTypes);

TYPED_TEST(Activations, ForwardMayBeInPlace) {
  for (const Activation kind : kAll) {
    for (const std::int64_t channels : {3, 20, 64}) {
      TestMap<TypeParam> x(7, channels), y(7, channels);
      x.fill(1, 0, 2);
      const TestMap<TypeParam> before = x;
      const auto expected = [&](auto row, auto c) { return expected_value(kind, before.at(row, c)); };
      Activate<TypeParam> element{x.data(), y.data(), x.packs(), kind};
      expect_names_its_memory(element, {x.bytes(), y.bytes()});
      y.expect_near(expected);
      element.y = x.data();
      expect_names_its_memory(element, {x.bytes()});
      x.expect_near(expected);
    }
  }
}

TYPED_TEST(Activations, BackwardWritesAddsAndMayBeInPlace) {
  for (const Activation kind : kAll) {
    for (const std::int64_t channels : {3, 20, 64}) {
      TestMap<TypeParam> x(7, channels), dy(7, channels), dx(7, channels), sum(7, channels);
      x.fill(1, 0, 2);
      dy.fill(2);
      sum.fill(3);
      const TestMap<TypeParam> gradient = dy, before = sum;
      const auto expected = [&](auto row, auto c) { return gradient.at(row, c) * expected_slope(kind, x.at(row, c)); };
      ActivateBackward<TypeParam> element{x.data(), dy.data(), sum.data(), x.packs(), kind, true};
      expect_names_its_memory(element, {x.bytes(), dy.bytes(), sum.bytes()});
      sum.expect_near([&](auto row, auto c) { return before.at(row, c) + expected(row, c); });
      element.add = false;
      element.dx = dx.data();
      expect_names_its_memory(element, {x.bytes(), dy.bytes(), dx.bytes()});
      dx.expect_near(expected);
      element.dx = dy.data();
      expect_names_its_memory(element, {x.bytes(), dy.bytes()});
      dy.expect_near(expected);
    }
  }
}

TYPED_TEST(Activations, ReluKnowsItsSlopeFromItsOutput) {
  TestMap<TypeParam> x(5, 20), y(5, 20), dy(5, 20), dx(5, 20);
  x.fill(1);
  dy.fill(2);
  run_on_host(Activate<TypeParam>{x.data(), y.data(), x.packs(), Activation::relu});
  run_on_host(ActivateBackward<TypeParam>{y.data(), dy.data(), dx.data(), x.packs(), Activation::relu, false});
  dx.expect_near([&](auto row, auto c) { return x.at(row, c) > 0 ? dy.at(row, c) : 0; }, 0);
}

TYPED_TEST(Activations, StandBehindABias) {
  for (const Activation kind : kAll) {
    for (const bool has_bias : {false, true}) {
      TestMap<TypeParam> y(6, 20);
      TestMap<float> bias(1, 20);
      y.fill(1);
      bias.fill(2);
      const TestMap<TypeParam> before = y;
      const BiasActivate<TypeParam> element{y.data(), has_bias ? bias.data() : nullptr, 6, y.row_packs(), kind};
      expect_names_its_memory(element, {y.bytes(), bias.bytes()});
      y.expect_near([&](auto row, auto c) { return expected_value(kind, before.at(row, c) + (has_bias ? bias.at(0, c) : 0)); });
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
