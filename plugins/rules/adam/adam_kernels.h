// Adam, Kingma and Ba, arXiv 1412.6980, as in torch.optim.Adam: weight decay is added to the gradient.
//   g = gradient + decay * w;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   w = w - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#pragma once

#include "millrace/update_kernel.h"

namespace millrace {

struct AdamKernel {
  static constexpr int kStates = 2;         // m, v
  float beta1, beta2, new1, new2, epsilon;  // new1 = 1 - beta1, new2 = 1 - beta2
  float momentum_scale, root_scale;         // 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[2]) const {
    const float g = gradient + n.decay * value;
    states[0] = beta1 * states[0] + new1 * g;
    states[1] = beta2 * states[1] + new2 * g * g;
    value -= n.rate * momentum_scale * states[0] / (sqrtf(states[1]) * root_scale + epsilon);
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::AdamKernel)
