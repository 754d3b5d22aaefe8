#pragma once

#include <math.h>

#include "millrace/loss_elements.h"
#include "millrace/portable.h"

namespace millrace::losses {

// output, weight, label, second label, share -> gradient, loss, weight, correct, correct5. In double, since a thousand classes
// are added up. Of places without weight the labels may be anything.
struct CrossEntropyKernel {
  static constexpr int kReads = 5, kWrites = 5;
  double smoothing;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const double weight = static_cast<double>(row.place_in(1));
    if (weight == 0) {
      row.each([&](auto c) { row.out(0, c, 0.0F); });
      for (int i = 1; i < kWrites; ++i) row.place_out(i, 0.0F);
      return;
    }
    const double share = static_cast<double>(row.place_in(4)), classes = static_cast<double>(row.channels());
    const auto label = static_cast<std::int64_t>(row.place_in(2));
    const auto second = share < 1 ? static_cast<std::int64_t>(row.place_in(3)) : label;

    // How many outputs come before the label's when sorted from the largest; equal ones keep their order. A NaN ranks above
    // everything, so that a diverged network does not look right.
    const std::int64_t named = share < 0.5 ? second : label;
    const float mine = row.in(0, named);
    const std::int32_t rank = row.sum([&](auto c) -> std::int32_t {
      const float value = row.in(0, c);
      return !(value <= mine) || (c < named && value == mine) ? 1 : 0;
    });

    const double largest = static_cast<double>(row.largest([&](auto c) { return row.in(0, c); }));
    const double total = row.sum([&](auto c) { return exp(static_cast<double>(row.in(0, c)) - largest); });
    const double log_total = largest + log(total);
    const double of_label = static_cast<double>(row.in(0, label)), of_second = static_cast<double>(row.in(0, second));
    const double meant = share < 1 ? share * of_label + (1 - share) * of_second : of_label;
    double loss = log_total - (1 - smoothing) * meant;
    if (smoothing != 0) loss -= smoothing * row.sum([&](auto c) { return static_cast<double>(row.in(0, c)); }) / classes;

    const double factor = weight / row.divisor(), uniform = smoothing / classes;
    row.each([&](auto c) {
      const double part = (c == label ? share : 0) + (c == second ? 1 - share : 0);
      const double target = part * (1 - smoothing) + uniform;
      row.out(0, c, static_cast<float>(factor * (exp(static_cast<double>(row.in(0, c)) - log_total) - target)));
    });
    row.place_out(1, static_cast<float>(weight * loss));
    row.place_out(2, static_cast<float>(weight));
    row.place_out(3, rank < 1 ? static_cast<float>(weight) : 0.0F);
    row.place_out(4, rank < 5 ? static_cast<float>(weight) : 0.0F);
  }
};

MILLRACE_LOSS_KERNELS(CrossEntropyKernel)

}  // namespace millrace::losses
