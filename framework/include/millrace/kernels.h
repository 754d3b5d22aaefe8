// Kernels: functions of values that layers, losses and optimizers are made of. They are written once and run on every device. The
// only header of the framework that a file of kernels includes; nvcc compiles that file too, where KERNELS of
// millrace_add_plugin() names it.
//
//   #include <millrace/kernels.h>
//
//   struct Softplus {  // of a layer (layer.h): y = log(1 + e^x)
//     MILLRACE_KERNEL float operator()(float x) const { return x > 20 ? x : millrace::math::log1p(millrace::math::exp(x)); }
//   };
//   struct SoftplusGradient {
//     MILLRACE_KERNEL float operator()(float x, float dy) const { return dy * millrace::math::sigmoid(x); }
//   };
//   MILLRACE_KERNELS(Softplus, SoftplusGradient)
//
// kernels/kernel.h has the marks, kernels/kernel_math.h the functions that a kernel may call, kernels/portable.h the four forms that
// a kernel of a layer or a loss may have, kernels/update_kernel.h the form of an optimizer's kernel. Kernels of a loss are listed
// with MILLRACE_LOSS_KERNELS, those of an optimizer with MILLRACE_UPDATE_KERNEL or MILLRACE_MATRIX_KERNEL.
#pragma once

#include "millrace/kernels/kernel.h"
#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/update_kernel.h"
