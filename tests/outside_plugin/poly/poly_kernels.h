// PolyLoss, Leng et al., arXiv 2204.12511: -log p + epsilon (1 - p), with p the softmax's probability of the label.
#pragma once

#include <millrace/kernels.h>

// output, weight, label -> gradient, loss, weight, correct
struct PolyKernel {
  static constexpr int kReads = 3, kWrites = 4;
  float epsilon;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(1);
    const std::int64_t label = weight == 0 ? 0 : static_cast<std::int64_t>(row.place_in(2));
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    const float total = row.sum([&](auto c) { return millrace::math::exp(row.in(0, c) - largest); });
    const float of_label = row.in(0, label), log_p = of_label - largest - millrace::math::log(total);
    const float p = millrace::math::exp(log_p);
    // d loss / d log p, and d log p / d output_c = (c == label) - probability_c
    const float slope = weight == 0 ? 0.0F : -1 - epsilon * p;
    const auto scale = static_cast<float>(static_cast<double>(weight) / row.divisor());
    row.each([&](auto c) {
      row.out(0, c, scale * slope * ((c == label ? 1.0F : 0.0F) - millrace::math::exp(row.in(0, c) - largest) / total));
    });
    row.place_out(1, weight == 0 ? 0.0F : weight * (epsilon * (1 - p) - log_p));
    row.place_out(2, weight);
    row.place_out(3, of_label == largest ? weight : 0.0F);
  }
};
MILLRACE_LOSS_KERNELS(PolyKernel)
