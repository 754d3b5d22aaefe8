// The choice among equal values and NaN, against the loop of PyTorch's max_pool2d.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernel_fixture.h"
#include "max_unpool_kernels.h"

namespace millrace::layers {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

struct Pooling {
  std::int32_t height, width;  // window size
  // use(i, j, y, x): the largest value of window (i, j) is at (y, x) of the map.
  template <class Use>
  void each(const TestMap& map, const Use& use) const {
    for (std::int32_t i = 0; i < map.height / height; ++i) {
      for (std::int32_t j = 0; j < map.width / width; ++j) {
        float largest = -kInfinity;
        std::int32_t y = i * height, x = j * width;
        for (std::int32_t row = i * height; row < (i + 1) * height; ++row) {
          for (std::int32_t column = j * width; column < (j + 1) * width; ++column) {
            const float value = map.at(row, column);
            if (!(value > largest) && !std::isnan(value)) continue;
            largest = value;
            y = row;
            x = column;
          }
        }
        use(i, j, y, x);
      }
    }
  }
};

// Many equal values, and some NaN.
TestMap awkward(std::int32_t height, std::int32_t width, std::mt19937& generator) {
  constexpr float kValues[] = {0, 0, 0, 0.5F, 1, 1, -1, -0.0F, kInfinity, -kInfinity, -kInfinity, kNaN};
  TestMap map(height, width);
  for (float& value : map.values) value = kValues[generator() % std::size(kValues)];
  return map;
}

TestMap numbered(std::int32_t height, std::int32_t width) {
  TestMap map(height, width);
  for (std::size_t i = 0; i < map.values.size(); ++i) map.values[i] = static_cast<float>(i + 1);
  return map;
}

template <class Kernel, class Gradient>
void expect_as_pytorch(const Pooling& pooling, const Kernel& kernel, const Gradient& gradient) {
  std::mt19937 generator(1);
  for (int round = 0; round < 200; ++round) {
    const TestMap x = awkward(5, 7, generator), dy = numbered(5, 7);
    const TestMap value = numbered(5 / pooling.height, 7 / pooling.width);
    TestMap y(5, 7), d_value(value.height, value.width);
    pooling.each(x, [&](auto i, auto j, auto row, auto column) {
      y.at(row, column) = value.at(i, j);
      d_value.at(i, j) = dy.at(row, column);
    });
    ASSERT_EQ(gathered(kernel, {value, x}, 5, 7).values, y.values);
    ASSERT_EQ(gathered(gradient, {x, dy}, value.height, value.width).values, d_value.values);
  }
}

TEST(MaxUnpool, ChoosesAsPyTorchInWindowsOfTwoByTwo) {
  expect_as_pytorch({2, 2}, MaxUnpoolTwoByTwo{}, MaxUnpoolTwoByTwoGradient{});
}

TEST(MaxUnpool, ChoosesAsPyTorchInOtherWindows) {
  for (const Pooling& pooling : {Pooling{1, 1}, {2, 2}, {1, 3}, {3, 2}, {5, 7}}) {
    SCOPED_TRACE(testing::Message() << pooling.height << " x " << pooling.width);
    expect_as_pytorch(pooling, MaxUnpoolKernel{Divider(pooling.height), Divider(pooling.width)},
                      MaxUnpoolGradient{pooling.height, pooling.width});
  }
}

}  // namespace
}  // namespace millrace::layers
