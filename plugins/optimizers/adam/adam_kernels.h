// Adam, Kingma and Ba, arXiv 1412.6980, as in torch.optim.Adam: weight decay is added to the gradient.
//   g = gradient + decay * w;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   w = w - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#pragma once

#include "millrace/kernels/moments.h"

namespace millrace {

struct AdamKernel {
  static constexpr int kStates = 2;  // m, v
  Moments moments;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[2]) const {
    value -= moments.step(n.rate, gradient + n.decay * value, states);
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::AdamKernel)
