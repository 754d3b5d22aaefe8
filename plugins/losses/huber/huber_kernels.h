#pragma once

#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, target, weight -> gradient, loss, weight
struct HuberKernel {
  static constexpr int kReads = 3, kWrites = 3;
  float delta;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(2), channels = static_cast<float>(row.channels());
    const auto scale = static_cast<float>(static_cast<double>(weight) / (row.divisor() * static_cast<double>(row.channels())));
    const float loss = row.sum([&](auto c) {
      const float far = math::abs(row.in(0, c) - row.in(1, c));
      return far < delta ? 0.5F * far * far : delta * (far - 0.5F * delta);
    });
    row.each([&](auto c) {
      const float far = row.in(0, c) - row.in(1, c);
      row.out(0, c, weight == 0 ? 0.0F : scale * (math::abs(far) > delta ? delta * math::sign(far) : far));
    });
    row.place_out(1, weight == 0 ? 0.0F : weight * loss / channels);
    row.place_out(2, weight);
  }
};

MILLRACE_LOSS_KERNELS(HuberKernel)

}  // namespace millrace::losses
