#pragma once

#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/pixel_row.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, weight of the sample, class, weights of classes -> gradient, loss, weight, correct, pixels, predicted
struct PixelCrossEntropyKernel {
  static constexpr int kReads = 4, kWrites = 6;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float of_sample = row.place_in(1), label = row.place_in(2);
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    const float predicted = class_of_largest(row, largest);
    row.place_out(5, predicted);
    if (of_sample == 0 || label < 0) return leave_pixel_out(row, 4);
    const auto named = static_cast<std::int64_t>(label);
    const float weight = of_sample * row.in(3, named);
    const float total = row.sum([&](auto c) { return math::exp(row.in(0, c) - largest); });
    const auto scale = static_cast<float>(static_cast<double>(weight) / row.divisor());
    row.each([&](auto c) { row.out(0, c, scale * (math::exp(row.in(0, c) - largest) / total - (c == named ? 1.0F : 0.0F))); });
    row.place_out(1, weight * (largest + math::log(total) - row.in(0, named)));
    row.place_out(2, weight);
    row.place_out(3, predicted == label ? of_sample : 0.0F);
    row.place_out(4, of_sample);
  }
};

MILLRACE_LOSS_KERNELS(PixelCrossEntropyKernel)

}  // namespace millrace::losses
