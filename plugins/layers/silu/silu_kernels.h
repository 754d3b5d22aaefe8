#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct SiluKernel {
  MILLRACE_KERNEL float operator()(float x) const { return x * math::sigmoid(x); }
};
struct SiluGradient {
  MILLRACE_KERNEL float operator()(float x, float dy) const {
    const float s = math::sigmoid(x);
    return dy * s * (1.0F + x * (1.0F - s));
  }
};

MILLRACE_KERNELS(SiluKernel, SiluGradient)

}  // namespace millrace::layers
