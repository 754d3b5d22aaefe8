#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

// exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), which loses nothing near 0.
struct EluKernel {
  float alpha;
  MILLRACE_KERNEL float operator()(float x) const {
    const float t = math::tanh(0.5F * x);
    return x > 0 ? x : alpha * (2.0F * t / (1.0F - t));
  }
};
struct EluGradient {
  float alpha;
  MILLRACE_KERNEL float operator()(float x, float dy) const { return x > 0 ? dy : dy * alpha * math::exp(x); }
};

MILLRACE_KERNELS(EluKernel, EluGradient)

}  // namespace millrace::layers
