#pragma once

#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, target, weight of the sample, weights of positive labels -> gradient, loss, weight, correct
struct BinaryCrossEntropyKernel {
  static constexpr int kReads = 4, kWrites = 4;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(2), labels = static_cast<float>(row.channels());
    if (weight == 0) {
      row.each([&](auto c) { row.out(0, c, 0.0F); });
      for (int i = 1; i < kWrites; ++i) row.place_out(i, 0.0F);
      return;
    }
    // With s the sigmoid: -log s(x) = max(-x, 0) + log(1 + exp(-|x|)), and -log(1 - s(x)) = -log s(-x).
    const float loss = row.sum([&](auto c) {
      const float x = row.in(0, c), y = row.in(1, c), rest = math::log1p(math::exp(-math::abs(x)));
      return row.in(3, c) * y * (math::max(-x, 0.0F) + rest) + (1.0F - y) * (math::max(x, 0.0F) + rest);
    });
    const float correct = row.sum([&](auto c) {
      const float x = row.in(0, c);
      return (row.in(1, c) >= 0.5F ? x > 0 : x <= 0) ? 1.0F : 0.0F;
    });
    const auto scale = static_cast<float>(static_cast<double>(weight) / (row.divisor() * static_cast<double>(row.channels())));
    row.each([&](auto c) {
      const float x = row.in(0, c), y = row.in(1, c);
      row.out(0, c, scale * ((1.0F - y) * math::sigmoid(x) - row.in(3, c) * y * math::sigmoid(-x)));
    });
    row.place_out(1, weight * loss / labels);
    row.place_out(2, weight);
    row.place_out(3, weight * correct / labels);
  }
};

MILLRACE_LOSS_KERNELS(BinaryCrossEntropyKernel)

}  // namespace millrace::losses
