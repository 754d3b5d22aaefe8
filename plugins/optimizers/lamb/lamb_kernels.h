// LAMB, You et al. 2019, arXiv 1904.00962, algorithm 2, with the identity for the paper's function phi:
//   m = beta1 * m + (1 - beta1) * gradient;  v = beta2 * v + (1 - beta2) * gradient^2
//   r = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * w;  w = w - rate * |w| / |r| * r
// |w| / |r| is 1 if the parameter is not decayed (biases, normalisation) or one of the norms is 0.
#pragma once

#include "millrace/kernels/moments.h"

namespace millrace {

struct LambKernel {
  static constexpr int kStates = 2;  // m, v
  Moments moments;
  MILLRACE_KERNEL float direction(const UpdateNumbers& n, float gradient, float value, float (&states)[2]) const {
    return moments.step(1, gradient, states) + n.decay * value;
  }
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[2]) const {
    const float r = direction(n, gradient, value, states);
    const bool adapts = n.decay > 0 && n.value_norm > 0 && n.direction_norm > 0;
    value -= n.rate * (adapts ? n.value_norm / n.direction_norm : 1.0F) * r;
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::LambKernel)
