// RMSprop, Hinton's lecture 6e of 2012; centred as in Graves, arXiv 1308.0850. Same as torch.optim.RMSprop:
//   g = gradient + decay * w;  v = alpha * v + (1 - alpha) * g^2;  m = alpha * m + (1 - alpha) * g
//   b = momentum * b + g / (sqrt(centred ? v - m^2 : v) + epsilon);  w = w - rate * b
#pragma once

#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct RmspropKernel {
  static constexpr int kStates = 3;           // v, m, b
  float alpha, new_share, epsilon, momentum;  // new_share = 1 - alpha
  bool centred;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[3]) const {
    const float g = gradient + n.decay * value;
    states[0] = alpha * states[0] + new_share * g * g;
    states[1] = centred ? alpha * states[1] + new_share * g : 0.0F;
    const float spread = states[0] - states[1] * states[1];
    states[2] = momentum * states[2] + g / (sqrtf(spread > 0 ? spread : 0.0F) + epsilon);  // rounding may make it negative
    value -= n.rate * states[2];
  }
};

}  // namespace millrace

MILLRACE_UPDATE_KERNEL(millrace::RmspropKernel)
