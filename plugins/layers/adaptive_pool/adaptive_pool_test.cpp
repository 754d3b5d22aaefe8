// Every small extent against PyTorch's loops over windows, with equal values and NaN.
#include "adaptive_pool_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernel_fixture.h"

namespace millrace::layers {
namespace {

constexpr std::int32_t kMax = 7;

// ATen/native/AdaptivePooling.h
std::int32_t start_index(std::int32_t a, std::int32_t b, std::int32_t c) { return (a / b) * c + ((a % b) * c) / b; }
std::int32_t end_index(std::int32_t a, std::int32_t b, std::int32_t c) { return 1 + ((a + 1) * c - 1) / b; }

struct Extents {
  std::int32_t height, width, rows, columns;  // sizes of x and of y

  template <class Kernel>
  Kernel kernel() const {
    return {{Divider(height), Divider(rows)}, {Divider(width), Divider(columns)}};
  }
  // use(i, j, top, bottom, left, right) for each window.
  template <class Use>
  void each(const Use& use) const {
    for (std::int32_t i = 0; i < rows; ++i) {
      for (std::int32_t j = 0; j < columns; ++j) {
        use(i, j, start_index(i, rows, height), end_index(i, rows, height), start_index(j, columns, width),
            end_index(j, columns, width));
      }
    }
  }
};

// use(extents): all extents along one axis, with some along the other.
template <class Use>
void for_each_extents(const Use& use) {
  for (std::int32_t in = 1; in <= kMax; ++in) {
    for (std::int32_t out = 1; out <= kMax; ++out) {
      for (const Extents& extents : {Extents{in, 5, out, 3}, {4, in, 4, out}, {2, in, 3, out}}) {
        SCOPED_TRACE(testing::Message() << extents.height << " x " << extents.width << " -> " << extents.rows << " x "
                                        << extents.columns);
        use(extents);
      }
    }
  }
}

TestMap random_map(std::int32_t height, std::int32_t width, std::mt19937& generator, bool awkward = false) {
  TestMap map(height, width);
  for (float& value : map.values) value = static_cast<float>(generator() % (awkward ? 3 : 1000));
  for (float& value : map.values) value = awkward && generator() % 8 == 0 ? std::nanf("") : value;
  return map;
}

void expect_near(const TestMap& found, const TestMap& expected) {
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(found.values[i], expected.values[i], 1e-5F * (1 + std::abs(expected.values[i])));
  }
}

TEST(AdaptiveAverage, AddsUpTheWindowsOfPyTorch) {
  std::mt19937 generator(1);
  for_each_extents([&](const Extents& of) {
    const TestMap x = random_map(of.height, of.width, generator), dy = random_map(of.rows, of.columns, generator);
    TestMap y(of.rows, of.columns), dx(of.height, of.width);
    of.each([&](auto i, auto j, auto top, auto bottom, auto left, auto right) {
      const auto count = static_cast<float>((bottom - top) * (right - left));
      for (auto row = top; row < bottom; ++row) {
        for (auto column = left; column < right; ++column) {
          y.at(i, j) += x.at(row, column) / count;
          dx.at(row, column) += dy.at(i, j) / count;
        }
      }
    });
    expect_near(gathered(of.kernel<AdaptiveAverage>(), {x}, of.rows, of.columns), y);
    expect_near(gathered(of.kernel<AdaptiveAverageGradient>(), {dy}, of.height, of.width), dx);
    if (of.rows > of.height || of.columns > of.width) return;
    expect_near(gathered(of.kernel<ShrinkingAverageGradient>(), {dy}, of.height, of.width), dx);
  });
}

TEST(AdaptiveLargest, ChoosesAsPyTorch) {
  std::mt19937 generator(2);
  for_each_extents([&](const Extents& of) {
    const TestMap x = random_map(of.height, of.width, generator, true), dy = random_map(of.rows, of.columns, generator);
    TestMap y(of.rows, of.columns), dx(of.height, of.width);
    of.each([&](auto i, auto j, auto top, auto bottom, auto left, auto right) {
      float largest = -1;
      auto at_row = top, at_column = left;
      for (auto row = top; row < bottom; ++row) {
        for (auto column = left; column < right; ++column) {
          const float value = x.at(row, column);
          if (!(value > largest) && !std::isnan(value)) continue;
          largest = value;
          at_row = row;
          at_column = column;
        }
      }
      y.at(i, j) = largest;
      dx.at(at_row, at_column) += dy.at(i, j);
    });
    const TestMap found = gathered(of.kernel<AdaptiveLargest>(), {x}, of.rows, of.columns);
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      ASSERT_TRUE(found.values[i] == y.values[i] || (std::isnan(found.values[i]) && std::isnan(y.values[i])));
    }
    ASSERT_EQ(gathered(of.kernel<AdaptiveLargestGradient>(), {x, y, dy}, of.height, of.width).values, dx.values);
  });
}

}  // namespace
}  // namespace millrace::layers
