#include "rows.h"

#include <algorithm>
#include <numeric>

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

template <class T>
using Softmaxes = TypedElement<T>;
TYPED_TEST_SUITE(Softmaxes, ElementTypes);

template <class T>
double probability(const TestMap<T>& x, std::int64_t row, std::int64_t c) {
  double sum = 0;
  for (std::int64_t j = 0; j < x.channels(); ++j) sum += std::exp(x.at(row, j) - x.at(row, c));
  return 1 / sum;
}

TYPED_TEST(Softmaxes, AddUpToOneAndMayBeInPlace) {
  for (const std::int64_t channels : {1, 3, 20, 64, 1000}) {
    TestMap<TypeParam> x(3, channels), y(3, channels);
    x.fill(1, 80, 2);
    const TestMap<TypeParam> before = x;
    const auto expected = [&](auto row, auto c) { return probability(before, row, c); };
    Softmax<TypeParam> element{x.data(), y.data(), 3, channels};
    expect_names_its_memory(element, {x.bytes(), y.bytes()});
    y.expect_near(expected);
    element.y = x.data();
    run_on_threads(element, 5);
    x.expect_near(expected);
  }
}

TYPED_TEST(Softmaxes, BackwardWritesAddsAndMayBeInPlace) {
  for (const std::int64_t channels : {1, 3, 20, 64, 1000}) {
    TestMap<TypeParam> y(3, channels), dy(3, channels), dx(3, channels);
    y.fill(1, 0.3, 0.1);
    dy.fill(2);
    const TestMap<TypeParam> gradient = dy;
    const auto expected = [&](auto row, auto c) {
      double sum = 0;
      for (std::int64_t j = 0; j < channels; ++j) sum += y.at(row, j) * gradient.at(row, j);
      return y.at(row, c) * (gradient.at(row, c) - sum);
    };
    SoftmaxBackward<TypeParam> element{y.data(), dy.data(), dx.data(), 3, channels, false};
    expect_names_its_memory(element, {y.bytes(), dy.bytes(), dx.bytes()});
    dx.expect_near(expected);
    element.add = true;
    expect_names_its_memory(element, {y.bytes(), dy.bytes(), dx.bytes()});
    dx.expect_near([&](auto row, auto c) { return 2 * expected(row, c); });
    element.add = false;
    element.dx = dy.data();
    run_on_threads(element, 3);
    dy.expect_near(expected);
  }
}

}  // namespace
}  // namespace millrace::cuda
