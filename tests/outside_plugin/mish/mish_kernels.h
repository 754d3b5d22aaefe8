// y = x tanh(log(1 + e^x)), Misra 2019, arXiv 1908.08681.
#pragma once

#include <millrace/kernels.h>

struct Mish {
  MILLRACE_KERNEL static float softplus(float x) { return x > 20 ? x : millrace::math::log1p(millrace::math::exp(x)); }
  MILLRACE_KERNEL float operator()(float x) const { return x * millrace::math::tanh(softplus(x)); }
};

struct MishGradient {
  MILLRACE_KERNEL float operator()(float x, float dy) const {
    const float t = millrace::math::tanh(Mish::softplus(x));
    return dy * (t + x * (1 - t * t) * millrace::math::sigmoid(x));
  }
};

MILLRACE_KERNELS(Mish, MishGradient)
