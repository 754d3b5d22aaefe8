// Running means of a gradient and of its square, shared by kernels of Adam's family (Kingma and Ba, arXiv 1412.6980). The
// optimizer's half is in moments_optimizer.h.
#pragma once

#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct Moments {
  float beta1, beta2, new1, new2, epsilon;  // new1 = 1 - beta1, new2 = 1 - beta2
  float momentum_scale, root_scale;         // 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)

  //   m = beta1 * m + (1 - beta1) * gradient;  v = beta2 * v + (1 - beta2) * gradient^2
  // Returns rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon). The states are m and v.
  MILLRACE_KERNEL float step(float rate, float gradient, float (&states)[2]) const {
    states[0] = beta1 * states[0] + new1 * gradient;
    states[1] = beta2 * states[1] + new2 * gradient * gradient;
    return rate * momentum_scale * states[0] / (sqrtf(states[1]) * root_scale + epsilon);
  }
};

}  // namespace millrace
