#pragma once

#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/pixel_row.h"
#include "millrace/kernels/portable.h"

namespace millrace::losses {

// output, weight of the sample, class, weights of the pixel's own class -> gradient, loss, weight, correct, pixels, predicted
struct PixelBinaryCrossEntropyKernel {
  static constexpr int kReads = 4, kWrites = 6;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float of_sample = row.place_in(1), label = row.place_in(2);
    const float predicted = class_of_largest(row, row.largest([&](auto c) { return row.in(0, c); }));
    row.place_out(5, predicted);
    if (of_sample == 0 || label < 0) return leave_pixel_out(row, 4);
    const auto named = static_cast<std::int64_t>(label);
    // With s the sigmoid: -log s(x) = max(-x, 0) + log(1 + exp(-|x|)), and -log(1 - s(x)) = -log s(-x).
    const float loss = row.sum([&](auto c) {
      const float x = row.in(0, c), rest = math::log1p(math::exp(-math::abs(x)));
      return c == named ? row.in(3, c) * (math::max(-x, 0.0F) + rest) : math::max(x, 0.0F) + rest;
    });
    const auto channels = static_cast<double>(row.channels());
    const auto scale = static_cast<float>(static_cast<double>(of_sample) / (row.divisor() * channels));
    row.each([&](auto c) {
      const float x = row.in(0, c);
      row.out(0, c, scale * (c == named ? -row.in(3, c) * math::sigmoid(-x) : math::sigmoid(x)));
    });
    row.place_out(1, of_sample * loss / static_cast<float>(row.channels()));
    row.place_out(2, of_sample);
    row.place_out(3, predicted == label ? of_sample : 0.0F);
    row.place_out(4, of_sample);
  }
};

MILLRACE_LOSS_KERNELS(PixelBinaryCrossEntropyKernel)

}  // namespace millrace::losses
