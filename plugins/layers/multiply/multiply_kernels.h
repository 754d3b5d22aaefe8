#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

struct Product {
  MILLRACE_KERNEL float operator()(float a, float b) const { return a * b; }
};
struct SumOfProducts {
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float a, float b) const { return a * b; }
};

MILLRACE_KERNELS(Product, SumOfProducts)

}  // namespace millrace::layers
