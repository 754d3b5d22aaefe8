#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct SigmoidKernel {
  MILLRACE_KERNEL float operator()(float x) const { return math::sigmoid(x); }
};
struct SigmoidGradient {
  MILLRACE_KERNEL float operator()(float y, float dy) const { return dy * y * (1.0F - y); }
};

MILLRACE_KERNELS(SigmoidKernel, SigmoidGradient)

}  // namespace millrace::layers
