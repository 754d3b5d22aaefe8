// Soft Dice of an image: 1 - mean over classes of (2 sum p t + smooth) / (sum p + sum t + smooth), where p are the softmax's
// probabilities and t is 1 for a pixel's class, summed over the counted pixels. A row writes marks, sums add them up by image and
// class, and two more rows compute the loss and its gradient from the totals.
#pragma once

#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/pixel_row.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, weight of the sample, class -> marks, loss, weight, correct, pixels, predicted
// A mark is p, and -p for the pixel's own class, below 0 even if p is 0; all are 0 for pixels that do not count. Loss and weight
// are the image's: DiceOfImage writes them at its first pixel, and all others are 0.
struct DiceMarks {
  static constexpr int kReads = 3, kWrites = 6;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float of_sample = row.place_in(1), label = row.place_in(2);
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    const float predicted = class_of_largest(row, largest);
    const bool counts = of_sample != 0 && label >= 0;
    row.place_out(1, 0.0F);
    row.place_out(2, 0.0F);
    row.place_out(3, counts && predicted == label ? of_sample : 0.0F);
    row.place_out(4, counts ? of_sample : 0.0F);
    row.place_out(5, predicted);
    if (!counts) {
      row.each([&](auto c) { row.out(0, c, 0.0F); });
      return;
    }
    const auto named = static_cast<std::int64_t>(label);
    const float total = row.sum([&](auto c) { return math::exp(row.in(0, c) - largest); });
    row.each([&](auto c) {
      const float p = math::exp(row.in(0, c) - largest) / total;
      row.out(0, c, c == named ? -math::max(p, 1e-30F) : p);
    });
  }
};

struct DiceShared {  // p t
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float mark) const { return mark < 0 ? -mark : 0.0F; }
};
struct DiceBoth {  // p + t
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float mark) const { return mark < 0 ? 1.0F - mark : mark; }
};
struct DicePixels {  // t
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float mark) const { return mark < 0 ? 1.0F : 0.0F; }
};

// An image's totals of p t, p + t and t: tensors `first` and the next two of a row.
struct DiceTotals {
  float smooth = 1;
  bool present = false;  // only classes present in the image count

  template <class Row>
  MILLRACE_KERNEL bool counts(const Row& row, int first, std::int64_t c) const {
    return !present || row.in(first + 2, c) > 0;
  }
  template <class Row>
  MILLRACE_KERNEL float classes(const Row& row, int first) const {
    return row.sum([&](auto c) { return counts(row, first, c) ? 1.0F : 0.0F; });
  }
  template <class Row>
  MILLRACE_KERNEL float below(const Row& row, int first, std::int64_t c) const {
    return row.in(first + 1, c) + smooth;
  }
  template <class Row>
  MILLRACE_KERNEL float dice(const Row& row, int first, std::int64_t c) const {  // 1 if the class is absent
    const float divisor = below(row, first, c);
    return divisor > 0 ? (2 * row.in(first, c) + smooth) / divisor : 1.0F;
  }
};

// totals, weight of the sample -> loss, weight
struct DiceOfImage {
  static constexpr int kReads = 4, kWrites = 2;
  DiceTotals totals;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(3), classes = totals.classes(row, 0);
    const double missed =
        row.sum([&](auto c) { return totals.counts(row, 0, c) ? 1.0 - static_cast<double>(totals.dice(row, 0, c)) : 0.0; });
    row.place_out(0,
                  classes > 0 ? static_cast<float>(static_cast<double>(weight) * missed / static_cast<double>(classes)) : 0.0F);
    row.place_out(1, weight);
  }
};

// output, weight of the sample, class, totals -> gradient
struct DiceGradient {
  static constexpr int kReads = 6, kWrites = 1, kTotals = 3;
  DiceTotals totals;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float of_sample = row.place_in(1), label = row.place_in(2);
    if (of_sample == 0 || label < 0) {
      row.each([&](auto c) { row.out(0, c, 0.0F); });
      return;
    }
    const auto named = static_cast<std::int64_t>(label);
    const float classes = totals.classes(row, kTotals);
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    const float total = row.sum([&](auto c) { return math::exp(row.in(0, c) - largest); });
    const auto p = [&](std::int64_t c) { return math::exp(row.in(0, c) - largest) / total; };
    const auto slope = [&](std::int64_t c) {  // derivative of the loss by p
      const float divisor = totals.below(row, kTotals, c);
      if (!totals.counts(row, kTotals, c) || !(divisor > 0)) return 0.0F;
      return (totals.dice(row, kTotals, c) - (c == named ? 2.0F : 0.0F)) / (divisor * classes);
    };
    const float mean = row.sum([&](auto c) { return p(c) * slope(c); });
    const auto scale = static_cast<float>(static_cast<double>(of_sample) / row.divisor());
    row.each([&](auto c) { row.out(0, c, scale * p(c) * (slope(c) - mean)); });
  }
};

MILLRACE_LOSS_KERNELS(DiceMarks, DiceShared, DiceBoth, DicePixels, DiceOfImage, DiceGradient)

}  // namespace millrace::losses
