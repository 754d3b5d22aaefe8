#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct ParametricReluKernel {
  MILLRACE_KERNEL float operator()(float x, float slope) const { return x > 0 ? x : slope * x; }
};
struct ParametricReluGradient {
  MILLRACE_KERNEL float operator()(float x, float slope, float dy) const { return x > 0 ? dy : slope * dy; }
};
// The slope's gradient.
struct ParametricReluTerm {
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x > 0 ? 0.0F : x * dy; }
};

MILLRACE_KERNELS(ParametricReluKernel, ParametricReluGradient, ParametricReluTerm)

}  // namespace millrace::layers
