// Resizes maps with PyTorch's formulas (ATen/native/UpSample.h), align_corners = false.
#pragma once

#include "millrace/kernels/divider.h"
#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

// ---- The nearest value: row y of the result is row floor(y * rows of x / rows of y) of x ----

// x -> y
struct NearestKernel {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  Divider height, width;  // size of y
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    return from(0, y * from.height(0) / height, x * from.width(0) / width);
  }
};

// dy -> dx: the sum over all places that took the value.
struct NearestGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  Divider height, width;  // size of x
  // Number of `to` places that took a value from the first `n` of `of`: n * to / of, rounded up.
  MILLRACE_KERNEL static std::int32_t before(std::int32_t n, std::int32_t to, const Divider& of) {
    return (n * to + of.by() - 1) / of;
  }
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const std::int32_t top = before(y, from.height(0), height), bottom = before(y + 1, from.height(0), height);
    const std::int32_t left = before(x, from.width(0), width), right = before(x + 1, from.width(0), width);
    return [&from, top, bottom, left, right](auto c) {
      float sum = 0;
      for (std::int32_t row = top; row < bottom; ++row) {
        for (std::int32_t column = left; column < right; ++column) sum += from(0, row, column)(c);
      }
      return sum;
    };
  }
};

// The same for doubled height and width: without loops, so that channels are vectorised.
struct DoubledNearestGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const auto a = from(0, 2 * y, 2 * x), b = from(0, 2 * y, 2 * x + 1);
    const auto d = from(0, 2 * y + 1, 2 * x), e = from(0, 2 * y + 1, 2 * x + 1);
    return [a, b, d, e](auto c) { return (a(c) + b(c)) + (d(c) + e(c)); };
  }
};

// ---- Bilinear, between the nearest two rows and columns ----

// The two places of x around a place of y, along one axis.
struct Between {
  std::int32_t first, second;  // equal at the last place of x
  float share;                 // weight of the second

  // The centre of `place` of y in coordinates of x. `scale`: extent of x / extent of y.
  MILLRACE_KERNEL static Between of(std::int32_t place, float scale, std::int32_t extent) {
    const float at = math::max((static_cast<float>(place) + 0.5F) * scale - 0.5F, 0.0F);
    const std::int32_t last = extent - 1, below = static_cast<std::int32_t>(at);
    const std::int32_t first = below < last ? below : last;
    return {first, first < last ? first + 1 : last, math::min(at - static_cast<float>(first), 1.0F)};
  }
  MILLRACE_KERNEL float share_of(std::int32_t place) const {
    return (first == place ? 1.0F - share : 0.0F) + (second == place ? share : 0.0F);
  }
};

// x -> y
struct BilinearKernel {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  float scale_y, scale_x;
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Between row = Between::of(y, scale_y, from.height(0)), column = Between::of(x, scale_x, from.width(0));
    const auto a = from(0, row.first, column.first), b = from(0, row.first, column.second);
    const auto d = from(0, row.second, column.first), e = from(0, row.second, column.second);
    const float below = row.share, right = column.share;
    return [=](auto c) {
      return (1.0F - below) * ((1.0F - right) * a(c) + right * b(c)) + below * ((1.0F - right) * d(c) + right * e(c));
    };
  }
};

// The places of y, along one axis, to which one place of x contributes.
struct Taps {
  static constexpr int kKept = 16;  // weights computed once for all channels
  std::int32_t place, first, count;
  float scale;
  std::int32_t extent;  // size of x
  float shares[kKept];

  // `to`: the extent of y. The range is that of exact arithmetic plus one place on each side, without those of weight 0.
  MILLRACE_KERNEL Taps(std::int32_t of, float by, std::int32_t from, std::int32_t to) : place(of), scale(by), extent(from) {
    const float middle = static_cast<float>(place) + 0.5F;
    first = static_cast<std::int32_t>(math::max((middle - 1.0F) / scale - 1.5F, 0.0F));
    const std::int32_t far = static_cast<std::int32_t>((middle + 1.0F) / scale + 0.5F);
    std::int32_t last = far < to - 1 ? far : to - 1;
    while (first < last && computed(first) == 0) ++first;
    while (first < last && computed(last) == 0) --last;
    count = last - first + 1;
    for (std::int32_t i = 0; i < kKept; ++i) shares[i] = i < count ? computed(first + i) : 0.0F;
  }
  MILLRACE_KERNEL float computed(std::int32_t of_y) const { return Between::of(of_y, scale, extent).share_of(place); }
  MILLRACE_KERNEL float share(std::int32_t i) const { return i < kKept ? shares[i] : computed(first + i); }
};

// dy -> dx: every value of dy times the weight of this place in it.
struct BilinearGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  float scale_y, scale_x;
  std::int32_t height, width;  // size of x
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Taps rows(y, scale_y, height, from.height(0)), columns(x, scale_x, width, from.width(0));
    return [&from, rows, columns](auto c) {
      float sum = 0;
      for (std::int32_t i = 0; i < rows.count; ++i) {
        float line = 0;
        for (std::int32_t k = 0; k < columns.count; ++k) line += columns.share(k) * from(0, rows.first + i, columns.first + k)(c);
        sum += rows.share(i) * line;
      }
      return sum;
    };
  }
};

// The same for doubled height and width: four rows and columns, without loops, so that channels are vectorised.
struct DoubledBilinearGradient {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  std::int32_t height, width;  // size of x

  struct Tap {
    std::int32_t place;
    float share;
  };
  MILLRACE_KERNEL static Tap tap(std::int32_t place, int number, std::int32_t extent) {  // number 0 ... 3; extent: that of x
    const std::int32_t at = 2 * place - 1 + number;
    const bool inside = at >= 0 && at < 2 * extent;
    const std::int32_t kept = inside ? at : 2 * place;
    return {kept, inside ? Between::of(kept, 0.5F, extent).share_of(place) : 0.0F};
  }
  template <class From>
  MILLRACE_KERNEL static auto line(const From& from, const Tap& row, const Tap (&columns)[4]) {
    const auto a = from(0, row.place, columns[0].place), b = from(0, row.place, columns[1].place);
    const auto d = from(0, row.place, columns[2].place), e = from(0, row.place, columns[3].place);
    const float of_a = row.share * columns[0].share, of_b = row.share * columns[1].share;
    const float of_d = row.share * columns[2].share, of_e = row.share * columns[3].share;
    return [=](auto c) { return (of_a * a(c) + of_b * b(c)) + (of_d * d(c) + of_e * e(c)); };
  }
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    const Tap columns[4] = {tap(x, 0, width), tap(x, 1, width), tap(x, 2, width), tap(x, 3, width)};
    const auto first = line(from, tap(y, 0, height), columns), second = line(from, tap(y, 1, height), columns);
    const auto third = line(from, tap(y, 2, height), columns), fourth = line(from, tap(y, 3, height), columns);
    return [=](auto c) { return (first(c) + second(c)) + (third(c) + fourth(c)); };
  }
};

MILLRACE_KERNELS(NearestKernel, NearestGradient, DoubledNearestGradient, BilinearKernel, BilinearGradient,
                 DoubledBilinearGradient)

}  // namespace millrace::layers
