// AdamW, Loshchilov and Hutter, arXiv 1711.05101, as in torch.optim.AdamW: weight decay is separate from the gradient.
//   w = w - rate * decay * w;  m = beta1 * m + (1 - beta1) * gradient;  v = beta2 * v + (1 - beta2) * gradient^2
//   w = w - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#pragma once

#include "millrace/kernels/moments.h"

namespace millrace {

struct AdamWKernel {
  static constexpr int kStates = 2;  // m, v
  Moments moments;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[2]) const {
    value -= n.rate * n.decay * value;
    value -= moments.step(n.rate, gradient, states);
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::AdamWKernel)
