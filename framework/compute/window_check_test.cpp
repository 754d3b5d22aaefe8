#include "millrace/backend/window_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "millrace/kernels/kernel.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// Contiguous (n, channels, h, w), and (group, k, c, i, j).
ElementOffsets in_order(const std::vector<std::int64_t>& extents, DataType type = DataType::f32) {
  ElementOffsets elements{type, std::vector<std::vector<std::int64_t>>(extents.size())};
  std::int64_t stride = 1;
  for (std::size_t a = extents.size(); a-- > 0; stride *= extents[a]) {
    for (std::int64_t i = 0; i < extents[a]; ++i) elements.axes[a].push_back(i * stride);
  }
  return elements;
}

struct Operand {
  ElementOffsets elements;
  std::vector<float> values;
};

// The definition, added up by five loops.
class Windows {
 public:
  explicit Windows(const WindowShape& shape) : s_(shape) {
    make(x, {s_.n, s_.groups * s_.c, s_.rows.in, s_.columns.in});
    make(w, {s_.groups, s_.k, s_.c, s_.rows.kernel, s_.columns.kernel});
    make(y, {s_.n, s_.groups * s_.k, s_.rows.out, s_.columns.out});
  }

  Operand& of(WindowOperand operand) { return operand == WindowOperand::x ? x : operand == WindowOperand::w ? w : y; }
  void fill(const WindowCheck& check, WindowOperand result) {
    for (const WindowOperand operand : {WindowOperand::x, WindowOperand::w, WindowOperand::y}) {
      Operand& to = of(operand);
      if (operand == result) {
        std::fill(to.values.begin(), to.values.end(), 0.0F);
      } else {
        check.fill(operand, to.elements, to.values.data(), 0, check.rows(to.elements));
      }
    }
  }
  void compute(WindowOperand result) {
    for (std::int64_t n = 0; n < s_.n; ++n) {
      for (std::int64_t channel = 0; channel < s_.groups * s_.k; ++channel) {
        for (std::int64_t h = 0; h < s_.rows.out; ++h) {
          for (std::int64_t w_out = 0; w_out < s_.columns.out; ++w_out) window(result, n, channel, h, w_out);
        }
      }
    }
  }
  WindowDifference compare(const WindowCheck& check, WindowOperand result, const WindowRounding& rounding = {}) {
    const Operand& found = of(result);
    return check.compare(found.elements, found.values.data(), 0, check.rows(found.elements), rounding);
  }

  Operand x, w, y;

 private:
  static void make(Operand& operand, const std::vector<std::int64_t>& extents) {
    operand.elements = in_order(extents);
    operand.values.resize(
        static_cast<std::size_t>(std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>())));
  }
  float& at(Operand& operand, const std::vector<std::int64_t>& position) const {
    std::int64_t sum = 0;
    for (std::size_t a = 0; a < position.size(); ++a) sum += operand.elements.axes[a][static_cast<std::size_t>(position[a])];
    return operand.values[static_cast<std::size_t>(sum)];
  }
  void window(WindowOperand result, std::int64_t n, std::int64_t channel, std::int64_t h, std::int64_t w_out) {
    const std::int64_t g = channel / s_.k, k = channel % s_.k;
    for (std::int64_t c = 0; c < s_.c; ++c) {
      for (std::int64_t i = 0; i < s_.rows.kernel; ++i) {
        for (std::int64_t j = 0; j < s_.columns.kernel; ++j) {
          const std::int64_t row = h * s_.rows.stride + i * s_.rows.dilation - s_.rows.before;
          const std::int64_t column = w_out * s_.columns.stride + j * s_.columns.dilation - s_.columns.before;
          if (row < 0 || row >= s_.rows.in || column < 0 || column >= s_.columns.in) continue;
          float& a = at(x, {n, g * s_.c + c, row, column});
          float& b = at(w, {g, k, c, i, j});
          float& sum = at(y, {n, channel, h, w_out});
          if (result == WindowOperand::y) sum += a * b;
          if (result == WindowOperand::x) a += b * sum;
          if (result == WindowOperand::w) b += a * sum;
        }
      }
    }
  }

  const WindowShape s_;
};

constexpr WindowOperand kAll[] = {WindowOperand::y, WindowOperand::x, WindowOperand::w};

const WindowShape kShapes[] = {
    {.n = 2, .c = 5, .k = 3, .rows = {7, 7, 3, 1, 1, 1}, .columns = {9, 9, 3, 1, 1, 1}},
    {.n = 3, .groups = 2, .c = 3, .k = 2, .rows = {9, 4, 3, 2, 1, 0}, .columns = {11, 5, 2, 2, 2, 1}},
    {.n = 2, .groups = 4, .rows = {6, 6, 5, 1, 1, 2}, .columns = {5, 5, 5, 1, 1, 2}},
    {.n = 4, .c = 6, .k = 5, .rows = {3, 1, 3}, .columns = {2, 1, 2}},  // a fully connected layer
    {.n = 2, .c = 4, .k = 4},
};

TEST(WindowCheck, KnowsEveryResult) {
  for (const WindowShape& shape : kShapes) {
    for (const WindowOperand result : kAll) {
      for (std::uint64_t draw = 0; draw < 5; ++draw) {
        const WindowCheck check(shape, result, draw);
        Windows windows(shape);
        windows.fill(check, result);
        windows.compute(result);
        const WindowDifference found = windows.compare(check, result, {.of_term = 0});  // exact, since all are whole numbers
        EXPECT_EQ(found.wrong, 0) << found.first;
        EXPECT_EQ(found.of, static_cast<std::int64_t>(windows.of(result).values.size()));
      }
    }
  }
}

TEST(WindowCheck, SeesOneWrongResultWhereverItIs) {
  const WindowShape& shape = kShapes[1];
  for (const WindowOperand result : kAll) {
    const WindowCheck check(shape, result);
    Windows windows(shape);
    windows.fill(check, result);
    windows.compute(result);
    for (float& value : windows.of(result).values) {
      for (const float wrong : {value + 1, -value - 1, 1e33F, std::numeric_limits<float>::quiet_NaN()}) {
        const float right = std::exchange(value, wrong);
        EXPECT_EQ(windows.compare(check, result).wrong, 1);
        value = right;
      }
    }
  }
}

// Simulates a kernel that leaves out a block of channels, some rows or the last column.
TEST(WindowCheck, SeesWhatWasLeftOut) {
  const WindowShape shape{.n = 2, .c = 16, .k = 16, .rows = {6, 6, 3, 1, 1, 1}, .columns = {8, 8, 3, 1, 1, 1}};
  const auto is_left_out = [](int what, std::size_t channel, std::size_t row, std::size_t column) {
    return what == 0 ? channel >= 8 : what == 1 ? row >= 2 && row < 4 : column == 7;
  };
  for (std::uint64_t draw = 0; draw < 2; ++draw) {
    for (const WindowOperand result : kAll) {
      const WindowCheck check(shape, result, draw);
      for (int what = result == WindowOperand::w ? 1 : 0; what < 3; ++what) {
        Windows windows(shape);
        windows.fill(check, result);
        Operand& read = windows.of(result == WindowOperand::x ? WindowOperand::y : WindowOperand::x);
        for (std::size_t i = 0; i < read.values.size(); ++i) {
          if (is_left_out(what, i / 48 % 16, i / 8 % 6, i % 8)) read.values[i] = 0;
        }
        windows.compute(result);
        EXPECT_GT(windows.compare(check, result).wrong, 0) << what;
      }
    }
  }
}

TEST(WindowCheck, WantsZerosInThePadding) {
  const WindowShape shape{.n = 1, .c = 2, .k = 3, .rows = {4, 4}, .columns = {4, 4}};
  const WindowCheck check(shape, WindowOperand::y);
  ElementOffsets padded = in_order({1, 8, 4, 4}, DataType::bf16);
  std::vector<Bf16> x(8 * 16, from_float<Bf16>(7));
  check.fill(WindowOperand::x, padded, x.data(), 0, check.rows(padded));
  for (std::size_t i = 2 * 16; i < x.size(); ++i) EXPECT_EQ(to_float(x[i]), 0);

  Windows windows(shape);
  windows.fill(check, WindowOperand::y);
  windows.compute(WindowOperand::y);
  std::vector<Bf16> y(8 * 16);
  for (std::size_t i = 0; i < windows.y.values.size(); ++i) y[i] = from_float<Bf16>(windows.y.values[i]);
  EXPECT_EQ(check.compare(padded, y.data(), 0, check.rows(padded), {}).wrong, 0);
  y.back() = from_float<Bf16>(1);
  const WindowDifference found = check.compare(padded, y.data(), 0, check.rows(padded), {});
  EXPECT_MESSAGE(found.first);
}

}  // namespace
}  // namespace millrace
