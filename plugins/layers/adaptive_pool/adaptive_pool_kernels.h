// Pooling whose windows follow from the output's size, as in PyTorch (ATen/native/AdaptivePooling.h).
#pragma once

#include "millrace/kernels/divider.h"
#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

// Places begin ... end - 1 along one axis.
struct Places {
  std::int32_t begin, end;
  MILLRACE_KERNEL std::int32_t count() const { return end - begin; }
};

// Windows along one axis. They overlap if one extent is not a multiple of the other.
struct AdaptiveAxis {
  Divider in, out;  // extents of x and y

  MILLRACE_KERNEL Places window(std::int32_t of) const { return meeting(of, in.by(), out); }              // places in x
  MILLRACE_KERNEL Places windows_with(std::int32_t place) const { return meeting(place, out.by(), in); }  // places in y

 private:
  // place * to / of, rounded down, up to (place + 1) * to / of, rounded up.
  MILLRACE_KERNEL static Places meeting(std::int32_t place, std::int32_t to, const Divider& of) {
    return {place * to / of, ((place + 1) * to + of.by() - 1) / of};
  }
};

// x -> y
struct AdaptiveAverage {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  AdaptiveAxis vertical, across;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Places rows = vertical.window(y), columns = across.window(x);
    return [&from, rows, columns](auto c) {
      float sum = 0;
      for (std::int32_t row = rows.begin; row < rows.end; ++row) {
        for (std::int32_t column = columns.begin; column < columns.end; ++column) sum += from(0, row, column)(c);
      }
      return sum / static_cast<float>(rows.count() * columns.count());
    };
  }
};

// dy -> dx: a share of each window that contains the place.
struct AdaptiveAverageGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  AdaptiveAxis vertical, across;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Places rows = vertical.windows_with(y), columns = across.windows_with(x);
    return [&from, rows, columns, kernel = *this](auto c) {
      float sum = 0;
      for (std::int32_t row = rows.begin; row < rows.end; ++row) {
        const std::int32_t height = kernel.vertical.window(row).count();
        for (std::int32_t column = columns.begin; column < columns.end; ++column) {
          sum += from(0, row, column)(c) / static_cast<float>(height * kernel.across.window(column).count());
        }
      }
      return sum;
    };
  }
};

// The same if no extent grows: a place is in one or two windows along each axis. Without loops, so that channels are vectorised.
struct ShrinkingAverageGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  AdaptiveAxis vertical, across;

  MILLRACE_KERNEL float share(std::int32_t row, std::int32_t column) const {
    return 1.0F / static_cast<float>(vertical.window(row).count() * across.window(column).count());
  }
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Places rows = vertical.windows_with(y), columns = across.windows_with(x);
    const std::int32_t top = rows.begin, bottom = rows.end - 1, left = columns.begin, right = columns.end - 1;
    const auto a = from(0, top, left), b = from(0, top, right), d = from(0, bottom, left), e = from(0, bottom, right);
    const float of_a = share(top, left), of_b = right > left ? share(top, right) : 0.0F;
    const float of_d = bottom > top ? share(bottom, left) : 0.0F;
    const float of_e = bottom > top && right > left ? share(bottom, right) : 0.0F;
    return [=](auto c) { return (of_a * a(c) + of_b * b(c)) + (of_d * d(c) + of_e * e(c)); };
  }
};

// x -> y
struct AdaptiveLargest {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  AdaptiveAxis vertical, across;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Places rows = vertical.window(y), columns = across.window(x);
    return [&from, rows, columns](auto c) {
      float largest = from(0, rows.begin, columns.begin)(c);
      for (std::int32_t row = rows.begin; row < rows.end; ++row) {
        for (std::int32_t column = columns.begin; column < columns.end; ++column) {
          const float value = from(0, row, column)(c);
          if (math::is_larger(value, largest)) largest = value;
        }
      }
      return largest;
    };
  }
};

// (x, y, dy) -> dx: for each window that contains the place, all or nothing. The largest value is the first that equals y, or the
// last NaN.
struct AdaptiveLargestGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 3;
  AdaptiveAxis vertical, across;

  // True if x at (y, x) is the window's result. Reads other values only if it equals the result.
  template <class From, class Channel>
  MILLRACE_KERNEL static bool is_taken(const From& from, Channel c, float given, Places rows, Places columns, std::int32_t y,
                                       std::int32_t x) {
    const float own = from(0, y, x)(c);
    const bool no_number = given != given;
    if (no_number ? own == own : own != given) return false;
    for (std::int32_t row = no_number ? y : rows.begin; row < (no_number ? rows.end : y + 1); ++row) {
      const std::int32_t first = no_number && row == y ? x + 1 : columns.begin;
      const std::int32_t last = !no_number && row == y ? x : columns.end;
      for (std::int32_t column = first; column < last; ++column) {
        const float other = from(0, row, column)(c);
        if (no_number ? other != other : other == given) return false;
      }
    }
    return true;
  }
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Places rows = vertical.windows_with(y), columns = across.windows_with(x);
    return [&from, rows, columns, y, x, kernel = *this](auto c) {
      float sum = 0;
      for (std::int32_t row = rows.begin; row < rows.end; ++row) {
        for (std::int32_t column = columns.begin; column < columns.end; ++column) {
          const float given = from(1, row, column)(c);
          const bool taken = is_taken(from, c, given, kernel.vertical.window(row), kernel.across.window(column), y, x);
          sum += taken ? from(2, row, column)(c) : 0.0F;
        }
      }
      return sum;
    };
  }
};

MILLRACE_KERNELS(AdaptiveAverage, AdaptiveAverageGradient, ShrinkingAverageGradient, AdaptiveLargest, AdaptiveLargestGradient)

}  // namespace millrace::layers
