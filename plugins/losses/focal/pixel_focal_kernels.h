#pragma once

#include <math.h>

#include "focal_term.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/pixel_row.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, weight of the sample, class, weights of classes -> gradient, loss, weight, correct, pixels, predicted
struct PixelFocalKernel {
  static constexpr int kReads = 4, kWrites = 6;
  double gamma;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float of_sample = row.place_in(1), label = row.place_in(2);
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    const float predicted = class_of_largest(row, largest);
    row.place_out(5, predicted);
    if (of_sample == 0 || label < 0) return leave_pixel_out(row, 4);
    const auto named = static_cast<std::int64_t>(label);
    const double top = static_cast<double>(largest);
    const double log_total = top + log(row.sum([&](auto c) { return exp(static_cast<double>(row.in(0, c)) - top); }));
    const FocalTerm term(static_cast<double>(row.in(0, named)) - log_total, gamma);
    const double weight = static_cast<double>(of_sample) * static_cast<double>(row.in(3, named));
    // log p[named] changes by (c == named) - p[c] with output c.
    const double slope = weight / row.divisor() * term.slope;
    row.each([&](auto c) {
      const double p = exp(static_cast<double>(row.in(0, c)) - log_total);
      row.out(0, c, static_cast<float>(slope * ((c == named ? 1.0 : 0.0) - p)));
    });
    row.place_out(1, static_cast<float>(weight * term.loss));
    row.place_out(2, static_cast<float>(weight));
    row.place_out(3, predicted == label ? of_sample : 0.0F);
    row.place_out(4, of_sample);
  }
};

MILLRACE_LOSS_KERNELS(PixelFocalKernel)

}  // namespace millrace::losses
