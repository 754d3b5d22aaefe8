#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct HardSigmoidKernel {
  MILLRACE_KERNEL float operator()(float x) const { return x < -3.0F ? 0.0F : x > 3.0F ? 1.0F : (x + 3.0F) / 6.0F; }
};
struct HardSigmoidGradient {
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x > -3.0F && x < 3.0F ? dy / 6.0F : 0.0F; }
};

MILLRACE_KERNELS(HardSigmoidKernel, HardSigmoidGradient)

}  // namespace millrace::layers
