// Kernels: functions of values, from which layers, losses and optimizers are made. They are written once and run on every device.
// A file of kernels includes no other header of the framework; nvcc compiles it too if KERNELS of millrace_add_plugin() lists it.
//
//   #include <millrace/kernels.h>
//
//   struct Softplus {  // for a layer (layer.h): y = log(1 + e^x)
//     MILLRACE_KERNEL float operator()(float x) const { return x > 20 ? x : millrace::math::log1p(millrace::math::exp(x)); }
//   };
//   struct SoftplusGradient {
//     MILLRACE_KERNEL float operator()(float x, float dy) const { return dy * millrace::math::sigmoid(x); }
//   };
//   MILLRACE_KERNELS(Softplus, SoftplusGradient)
//
// kernels/kernel.h has the marks, kernels/kernel_math.h the functions that a kernel may call, kernels/portable.h the four forms
// that a kernel of a layer or a loss may have, kernels/update_kernel.h the form of an optimizer's kernel. Kernels of a loss are
// listed with MILLRACE_LOSS_KERNELS, those of an optimizer with MILLRACE_UPDATE_KERNEL or MILLRACE_MATRIX_KERNEL.
#pragma once

#include "millrace/kernels/kernel.h"
#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/update_kernel.h"
