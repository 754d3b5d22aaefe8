// Kernels that move a map by some rows and columns: cropping a window, and padding a map with zeros. Each is the other's
// gradient. The header of a layer that uses them lists them with MILLRACE_KERNELS.
#pragma once

#include <cstdint>

#include "millrace/kernels/kernel.h"

namespace millrace {

// The values from row `top` and column `left` on.
struct CutWindow {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  std::int32_t top, left;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    return from(0, y + top, x + left);
  }
};

// All values, placed at row `top` and column `left` of the result, with zeros around them.
struct PlaceWindow {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  std::int32_t top, left;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const std::int32_t row = y - top, column = x - left;
    const bool inside = row >= 0 && row < from.height(0) && column >= 0 && column < from.width(0);
    const auto place = from(0, inside ? row : 0, inside ? column : 0);
    return [inside, place](auto c) { return inside ? place(c) : 0.0F; };
  }
};

}  // namespace millrace
