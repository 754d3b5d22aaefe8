#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct LayerScaleKernel {
  MILLRACE_KERNEL float operator()(float x, float factor) const { return x * factor; }
};
// The factor's gradient.
struct LayerScaleTerm {
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x * dy; }
};

MILLRACE_KERNELS(LayerScaleKernel, LayerScaleTerm)

}  // namespace millrace::layers
