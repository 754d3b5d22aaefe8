// Adafactor, Shazeer and Stern 2018, arXiv 1804.04235, algorithm 4, as torch.optim.Adafactor computes it:
//   b = t ^ beta2_decay;  R = R + b (row means of gradient^2 - R);  C = C + b (column means - C);  M = M + b (mean - M)
//   V = R C / max(M, epsilon1);  u = gradient / sqrt(max(V, epsilon1^2))
//   w = w - rate * decay * w - max(epsilon2, rms(w)) * min(rate, 1 / sqrt(t)) * u / max(1, rms(u) / clip_threshold)
// rms(w) is taken before the update. M is the mean of R: all three are means of the same squares. A vector, a matrix of one
// column, is not factored: V = R, even if M is below epsilon1.
#pragma once

#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct AdafactorKernel {
  static constexpr int kStates = 3;  // R, C, M
  float new_share;                   // b
  float largest_step;                // 1 / sqrt(t)
  float epsilon1, epsilon2, clip_threshold;

  MILLRACE_KERNEL float measure(const UpdateNumbers&, int, float gradient, float) const { return gradient * gradient; }
  MILLRACE_KERNEL float reduced(const UpdateNumbers&, int, float mean, float before) const {
    return before + new_share * (mean - before);
  }
  MILLRACE_KERNEL float direction(const UpdateNumbers& n, float gradient, float, float (&states)[3]) const {
    const float square = n.columns > 1 ? states[0] / math::max(states[2], epsilon1) * states[1] : states[0];
    return gradient / math::sqrt(math::max(square, epsilon1 * epsilon1));
  }
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[3]) const {
    const float root = math::sqrt(n.rows * n.columns);
    const float step = math::max(epsilon2, n.value_norm / root) * math::min(n.rate, largest_step);
    const float clip = math::max(1.0F, n.direction_norm / (root * clip_threshold));
    const float u = direction(n, gradient, value, states);
    value -= n.rate * n.decay * value;
    value -= step / clip * u;
  }
};

}  // namespace millrace

MILLRACE_REDUCING_KERNEL(millrace::AdafactorKernel)
