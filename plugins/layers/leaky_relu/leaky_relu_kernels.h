#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct LeakyReluKernel {
  float slope;
  MILLRACE_KERNEL float operator()(float x) const { return x > 0 ? x : slope * x; }
};
// Uses the input, because the output's sign is meaningless if the slope is negative or 0.
struct LeakyReluGradient {
  float slope;
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x > 0 ? dy : slope * dy; }
};

MILLRACE_KERNELS(LeakyReluKernel, LeakyReluGradient)

}  // namespace millrace::layers
