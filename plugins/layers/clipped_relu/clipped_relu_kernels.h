#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct ClippedReluKernel {
  float ceiling;
  MILLRACE_KERNEL float operator()(float x) const { return x < 0 ? 0.0F : x > ceiling ? ceiling : x; }
};
// Uses the input, because an output at the ceiling may be rounded to below it.
struct ClippedReluGradient {
  float ceiling;
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x > 0 && x < ceiling ? dy : 0.0F; }
};

MILLRACE_KERNELS(ClippedReluKernel, ClippedReluGradient)

}  // namespace millrace::layers
