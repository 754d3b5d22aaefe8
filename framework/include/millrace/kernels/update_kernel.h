// Kernels of update rules: what an author writes. See optimizer.h for a whole rule.
//
//   struct HeavyBallKernel {
//     static constexpr int kStates = 1;
//     float momentum;
//     MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&states)[1]) const {
//       states[0] = momentum * states[0] + gradient + n.decay * value;
//       value -= n.rate * states[0];
//     }
//   };
//   MILLRACE_UPDATE_KERNEL(HeavyBallKernel)
//
// At a rate of 0 a value does not move: a parameter that no longer learns may be left out.
//
// A kernel sees one value with its gradient and its states, and never an address. It is trivially copyable and calls only
// functions marked MILLRACE_KERNEL and those of <math.h>. Where value, gradient and states are 0 the value must stay 0: layouts
// have padding.
//
// A kernel of scope `parameter` may also have
//   float direction(const UpdateNumbers& n, float gradient, float value, float (&states)[1]) const
// which is asked before any value changes, with copies of the states and without norms. The kernel then gets the norm over the
// parameter of what it returned (direction_norm), as LAMB needs.
//
// A kernel of scope `matrix` has
//   float before(const UpdateNumbers& n, float gradient, float value, float (&states)[1]) const
// which changes the states and returns the value's direction. Directions of a parameter, a matrix of (out, all others), are made
// orthogonal (orthogonalise.h), and operator() gets the result in place of the gradient.
//
// A state that the rule does not keep with its parameters (RuleDescription::state) reads as 0; writes are dropped.
#pragma once

#include <math.h>

#include <type_traits>

#include "millrace/kernels/update_elements.h"

// Stands behind a kernel in its header; MILLRACE_MATRIX_KERNEL behind one of scope `matrix`. Where KERNELS of
// millrace_add_plugin() names the header, nvcc compiles the kernel.
#if defined(MILLRACE_DEVICE_CODE)
#define MILLRACE_UPDATE_KERNEL(...)                                                                      \
  MILLRACE_ELEMENTS(::millrace::UpdateElement<__VA_ARGS__>, ::millrace::SquaresOf<__VA_ARGS__>::Element, \
                    ::millrace::SquaresOfSegment)
#define MILLRACE_MATRIX_KERNEL(...)   \
  MILLRACE_UPDATE_KERNEL(__VA_ARGS__) \
  MILLRACE_ELEMENTS(::millrace::DirectionElement<__VA_ARGS__>)
#else
#define MILLRACE_UPDATE_KERNEL(...) static_assert(std::is_trivially_copyable_v<__VA_ARGS__>);
#define MILLRACE_MATRIX_KERNEL(...) static_assert(::millrace::MatrixKernel<__VA_ARGS__>);
#endif
