// Stochastic gradient descent as in torch.optim.SGD:
//   g = gradient + decay * w;  v = momentum * v + g;  w = w - rate * (nesterov ? g + momentum * v : v)
#pragma once

#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct SgdKernel {
  static constexpr int kStates = 1;  // v
  float momentum;
  bool nesterov;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
    float step = gradient + n.decay * value;
    states[0] = momentum * states[0] + step;
    step = nesterov ? step + momentum * states[0] : states[0];
    value -= n.rate * step;
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::SgdKernel)
