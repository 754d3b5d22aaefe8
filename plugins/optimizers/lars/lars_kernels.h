// LARS, You, Gitman and Ginsburg, arXiv 1708.03888, algorithm 1:
//   l = trust * |w| / (|gradient| + decay * |w| + epsilon);  v = momentum * v + rate * l * (gradient + decay * w);  w = w - v
// l is 1 if the parameter is not decayed (biases, normalisation) or one of the norms is 0.
#pragma once

#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct LarsKernel {
  static constexpr int kStates = 1;  // v
  float momentum, trust, epsilon;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
    if (n.rate == 0) return;  // v contains earlier steps' rates, and would move a parameter that no longer learns
    const bool adapts = n.decay > 0 && n.value_norm > 0 && n.gradient_norm > 0;
    const float local = adapts ? trust * n.value_norm / (n.gradient_norm + n.decay * n.value_norm + epsilon) : 1.0F;
    states[0] = momentum * states[0] + n.rate * local * (gradient + n.decay * value);
    value -= states[0];
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::LarsKernel)
