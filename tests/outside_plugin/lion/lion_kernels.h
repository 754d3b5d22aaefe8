// Lion, Chen et al., arXiv 2302.06675.
#pragma once

#include <millrace/update_kernel.h>

struct LionKernel {
  static constexpr int kStates = 1;  // momentum
  float beta1, beta2;
  MILLRACE_KERNEL void operator()(const millrace::UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
    const float direction = beta1 * states[0] + (1 - beta1) * gradient;
    const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : 0.0F;
    value -= n.rate * (sign + n.decay * value);
    states[0] = beta2 * states[0] + (1 - beta2) * gradient;
  }
};
MILLRACE_UPDATE_KERNEL(LionKernel)
