#pragma once

#include "millrace/kernels/divider.h"

namespace millrace::layers {

// x (C * f * f, H, W) -> y (C, H * f, W * f) with factor f: each square of f x f places comes from the channels of one place.
struct PixelShuffleKernel {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  Divider factor;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const std::int32_t first = y % factor * factor.by() + x % factor, step = factor.by() * factor.by();
    return [place = from(0, y / factor, x / factor), first, step](std::int32_t c) { return place(c * step + first); };
  }
};

// dy (C, H * f, W * f) -> dx (C * f * f, H, W)
struct PixelShuffleGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  Divider factor, area;  // f, f * f
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const std::int32_t top = y * factor.by(), left = x * factor.by();
    return [&from, top, left, kernel = *this](std::int32_t c) {
      const std::int32_t place = c % kernel.area;
      return from(0, c / kernel.area, top + place / kernel.factor, left + place % kernel.factor);
    };
  }
};

MILLRACE_KERNELS(PixelShuffleKernel, PixelShuffleGradient)

}  // namespace millrace::layers
