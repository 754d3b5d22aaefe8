// Quasi-hyperbolic momentum, Ma and Yarats, arXiv 1810.06801.
#pragma once

#include <millrace/kernels.h>

struct QhmKernel {
  static constexpr int kStates = 1;  // momentum
  float beta, nu;
  MILLRACE_KERNEL void operator()(const millrace::UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
    const float g = gradient + n.decay * value;
    states[0] = beta * states[0] + (1 - beta) * g;
    value -= n.rate * ((1 - nu) * g + nu * states[0]);
  }
};
MILLRACE_UPDATE_KERNEL(QhmKernel)
