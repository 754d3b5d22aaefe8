#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct HardSwishKernel {
  MILLRACE_KERNEL float operator()(float x) const { return x < -3.0F ? 0.0F : x > 3.0F ? x : x * (x + 3.0F) / 6.0F; }
};
struct HardSwishGradient {
  // At -3 and 3 the derivative is that of the outer lines, as in PyTorch since its pull request 148049; before, it was -0.5 and
  // 1.5 there.
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x <= -3.0F ? 0.0F : x >= 3.0F ? dy : dy * (x / 3.0F + 0.5F); }
};

MILLRACE_KERNELS(HardSwishKernel, HardSwishGradient)

}  // namespace millrace::layers
