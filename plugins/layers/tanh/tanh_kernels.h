#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct TanhKernel {
  MILLRACE_KERNEL float operator()(float x) const { return math::tanh(x); }
};
struct TanhGradient {
  MILLRACE_KERNEL float operator()(float y, float dy) const { return dy * (1.0F - y * y); }
};

MILLRACE_KERNELS(TanhKernel, TanhGradient)

}  // namespace millrace::layers
