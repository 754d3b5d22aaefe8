#include "lrn.h"

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

template <class T>
struct Responses {
  Responses(std::int64_t window_size, std::int64_t channels, double factor, double exponent, double base)
      : window(window_size),
        alpha(factor),
        beta(exponent),
        k(base),
        x(5, channels),
        y(5, channels),
        dy(5, channels),
        dx(5, channels),
        s(5, x.pitch()) {
    x.fill(1, 0, 2);
    dy.fill(2);
  }
  double squares(std::int64_t row, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t i = c - (window - 1) / 2; i <= c + window / 2; ++i) {
      if (i >= 0 && i < x.channels()) sum += x.at(row, i) * x.at(row, i);
    }
    return k + alpha / static_cast<double>(window) * sum;
  }
  // The derivative of sum(dy * y) by x(row, c), by finite differences of the definition.
  double slope(std::int64_t row, std::int64_t c) {
    const auto total = [&](double by) {
      double sum = 0;
      for (std::int64_t i = 0; i < x.channels(); ++i) {
        double squared = 0;
        for (std::int64_t j = i - (window - 1) / 2; j <= i + window / 2; ++j) {
          if (j < 0 || j >= x.channels()) continue;
          const double value = x.at(row, j) + (j == c ? by : 0);
          squared += value * value;
        }
        sum += dy.at(row, i) * (x.at(row, i) + (i == c ? by : 0)) *
               std::pow(k + alpha / static_cast<double>(window) * squared, -beta);
      }
      return sum;
    };
    return (total(1e-4) - total(-1e-4)) / 2e-4;
  }
  Lrn<T> forward() {
    return {x.data(),
            y.data(),
            s.data(),
            5,
            x.row_packs(),
            static_cast<std::int32_t>(window),
            static_cast<float>(alpha),
            static_cast<float>(beta),
            static_cast<float>(k)};
  }
  LrnBackward<T> backward() {
    return {x.data(),
            dy.data(),
            s.data(),
            dx.data(),
            5,
            x.row_packs(),
            static_cast<std::int32_t>(window),
            static_cast<float>(alpha),
            static_cast<float>(beta),
            false};
  }
  std::vector<std::span<std::byte>> memory() { return {x.bytes(), y.bytes(), dy.bytes(), dx.bytes(), s.bytes()}; }

  std::int64_t window;
  double alpha, beta, k;
  TestMap<T> x, y, dy, dx;
  TestMap<float> s;
};

template <class T>
using LocalResponse = TypedElement<T>;
TYPED_TEST_SUITE(LocalResponse, ElementTypes);

TYPED_TEST(LocalResponse, MatchesTheDefinitionAndItsSlope) {
  for (const std::int64_t window : {1, 2, 3, 4, 5, 9, 18, 40}) {
    for (const std::int64_t channels : {3, 20, 64}) {
      for (const double beta : {0.75, 0.5}) {
        SCOPED_TRACE("window " + std::to_string(window) + ", " + std::to_string(channels) + " channels");
        Responses<TypeParam> r(window, channels, 0.25, beta, 2);
        expect_names_its_memory(r.forward(), r.memory());
        r.y.expect_near([&](auto row, auto c) { return r.x.at(row, c) * std::pow(r.squares(row, c), -beta); });
        r.x.each([&](auto row, auto c) { ASSERT_NEAR(r.s.at(row, c), r.squares(row, c), 1e-4); });
        LrnBackward<TypeParam> element = r.backward();
        expect_names_its_memory(element, r.memory());
        const auto expected = [&](auto row, auto c) { return r.slope(row, c); };
        r.dx.expect_near(expected);
        element.add = true;
        expect_names_its_memory(element, r.memory());
        r.dx.expect_near([&](auto row, auto c) { return 2 * expected(row, c); }, 2 * tolerance<TypeParam>());
        Lrn<TypeParam> inference = r.forward();
        inference.s = nullptr;
        expect_names_its_memory(inference, r.memory());
      }
    }
  }
}

TYPED_TEST(LocalResponse, PaddingStaysZeroWhenNothingIsAddedToTheSum) {
  Responses<TypeParam> r(3, 3, 1, 0.75, 0);
  run_on_host(r.forward());
  r.y.expect_padding();
  run_on_host(r.backward());
  r.dx.expect_padding();
}

}  // namespace
}  // namespace millrace::cuda
