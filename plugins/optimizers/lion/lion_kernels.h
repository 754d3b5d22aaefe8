// Lion, Chen et al. 2023, arXiv 2302.06675, algorithm 2:
//   c = beta1 * m + (1 - beta1) * gradient;  w = w - rate * (sign(c) + decay * w);  m = beta2 * m + (1 - beta2) * gradient
#pragma once

#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct LionKernel {
  static constexpr int kStates = 1;  // m
  float beta1, beta2, new1, new2;    // new1 = 1 - beta1, new2 = 1 - beta2
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
    const float c = beta1 * states[0] + new1 * gradient;
    const float sign = c > 0 ? 1.0F : c < 0 ? -1.0F : c;  // NaN stays NaN
    value -= n.rate * (sign + n.decay * value);
    states[0] = beta2 * states[0] + new2 * gradient;
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::LionKernel)
