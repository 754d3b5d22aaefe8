#pragma once

#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, target, weight -> gradient, loss, weight, relative
struct MeanSquaredErrorKernel {
  static constexpr int kReads = 3, kWrites = 4;
  float relative;  // 1 / peak^2

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(2), channels = static_cast<float>(row.channels());
    const auto scale =
        static_cast<float>(2 * static_cast<double>(weight) / (row.divisor() * static_cast<double>(row.channels())));
    const float squares = row.sum([&](auto c) {
      const float far = row.in(0, c) - row.in(1, c);
      return far * far;
    });
    row.each([&](auto c) { row.out(0, c, weight == 0 ? 0.0F : scale * (row.in(0, c) - row.in(1, c))); });
    const float loss = weight == 0 ? 0.0F : weight * squares / channels;
    row.place_out(1, loss);
    row.place_out(2, weight);
    row.place_out(3, relative * loss);
  }
};

MILLRACE_LOSS_KERNELS(MeanSquaredErrorKernel)

}  // namespace millrace::losses
