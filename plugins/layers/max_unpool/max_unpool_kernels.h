// Inverse of max pooling. Windows do not overlap, and each value goes to the place of its window's largest value in x: the first
// of equal ones, the last NaN, as in PyTorch (ATen/native/cpu/MaxPoolKernel.cpp).
#pragma once

#include "millrace/kernels/divider.h"
#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

// ---- Windows of 2 x 2: without loops over places, so that channels are vectorised ----

struct FourPlaces {
  // The number that belongs to the largest of four values.
  MILLRACE_KERNEL static float at_largest(const float (&values)[4], const float (&numbers)[4]) {
    float largest = values[0], number = numbers[0];
    MILLRACE_UNROLL for (int i = 1; i < 4; ++i) {
      const bool larger = math::is_larger(values[i], largest);
      largest = larger ? values[i] : largest;
      number = larger ? numbers[i] : number;
    }
    return number;
  }
};

// (value, x) -> y
struct MaxUnpoolTwoByTwo {
  static constexpr bool kGather = true;
  static constexpr int kReads = 2;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const bool inside = y / 2 < from.height(0) && x / 2 < from.width(0);
    const std::int32_t row = inside ? y / 2 : 0, column = inside ? x / 2 : 0;
    const std::int32_t own = inside ? y % 2 * 2 + x % 2 : -1;
    const auto value = from(0, row, column);
    const auto a = from(1, 2 * row, 2 * column), b = from(1, 2 * row, 2 * column + 1);
    const auto d = from(1, 2 * row + 1, 2 * column), e = from(1, 2 * row + 1, 2 * column + 1);
    return [=](auto c) {
      const float given = value(c);
      return FourPlaces::at_largest({a(c), b(c), d(c), e(c)}, {own == 0 ? given : 0.0F, own == 1 ? given : 0.0F,
                                                               own == 2 ? given : 0.0F, own == 3 ? given : 0.0F});
    };
  }
};

// (x, dy) -> d_value
struct MaxUnpoolTwoByTwoGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 2;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const auto a = from(0, 2 * y, 2 * x), b = from(0, 2 * y, 2 * x + 1);
    const auto d = from(0, 2 * y + 1, 2 * x), e = from(0, 2 * y + 1, 2 * x + 1);
    const auto d_a = from(1, 2 * y, 2 * x), d_b = from(1, 2 * y, 2 * x + 1);
    const auto d_d = from(1, 2 * y + 1, 2 * x), d_e = from(1, 2 * y + 1, 2 * x + 1);
    return [=](auto c) { return FourPlaces::at_largest({a(c), b(c), d(c), e(c)}, {d_a(c), d_b(c), d_d(c), d_e(c)}); };
  }
};

// ---- Windows of any size ----

struct UnpoolWindow {
  std::int32_t top, left, height, width;

  // Place of the window's largest value in x: row * width + column. `tensor`: x.
  template <class From, class Channel>
  MILLRACE_KERNEL std::int32_t largest(const From& from, int tensor, Channel c) const {
    float largest = from(tensor, top, left)(c);
    std::int32_t at = 0;
    for (std::int32_t row = 0; row < height; ++row) {
      for (std::int32_t column = 0; column < width; ++column) {
        const float value = from(tensor, top + row, left + column)(c);
        if (!math::is_larger(value, largest)) continue;
        largest = value;
        at = row * width + column;
      }
    }
    return at;
  }
};

// (value, x) -> y
struct MaxUnpoolKernel {
  static constexpr bool kGather = true;
  static constexpr int kReads = 2;
  Divider height, width;  // window size
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const std::int32_t row = y / height, column = x / width;
    const bool inside = row < from.height(0) && column < from.width(0);
    const UnpoolWindow window{row * height.by(), column * width.by(), height.by(), width.by()};
    const std::int32_t own = (y - window.top) * window.width + x - window.left;
    return [&from, row, column, inside, window, own](auto c) {
      return inside && window.largest(from, 1, c) == own ? from(0, row, column)(c) : 0.0F;
    };
  }
};

// (x, dy) -> d_value
struct MaxUnpoolGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 2;
  std::int32_t height, width;  // window size
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    return [&from, window = UnpoolWindow{y * height, x * width, height, width}](auto c) {
      const std::int32_t at = window.largest(from, 0, c);
      return from(1, window.top + at / window.width, window.left + at % window.width)(c);
    };
  }
};

MILLRACE_KERNELS(MaxUnpoolTwoByTwo, MaxUnpoolTwoByTwoGradient, MaxUnpoolKernel, MaxUnpoolGradient)

}  // namespace millrace::layers
