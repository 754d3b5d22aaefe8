// Kernels of optimizers, for their authors. See optimizer.h for a complete optimizer.
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
// At a rate of 0 the value must not change: parameters that no longer learn may be skipped.
//
// A kernel receives one value with its gradient and states, never an address. It is trivially copyable and calls only functions
// marked MILLRACE_KERNEL and those of <math.h>. If value, gradient and states are 0, the value must stay 0: layouts have padding.
//
// A kernel of scope `parameter` may also have
//   float direction(const UpdateNumbers& n, float gradient, float value, float (&states)[1]) const
// which is called before any value changes, with copies of the states and without norms. The kernel then receives the norm of
// these directions over the parameter (direction_norm), as LAMB needs.
//
// A kernel of scope `matrix` has
//   float before(const UpdateNumbers& n, float gradient, float value, float (&states)[1]) const
// which changes the states and returns the value's direction. The directions of a parameter, a matrix (out, all others), are made
// orthogonal (orthogonalise.h), and operator() receives the result instead of the gradient.
//
// A state that the optimizer does not keep with its parameters (OptimizerDescription::state) reads as 0; writes are dropped.
//
// States have one number per element, unless the optimizer declares rows, columns or scalar: such a state is *reduced*, with one
// number per row or column of the parameter as a matrix (out, all others), or one for the whole. A vector is a matrix of one
// column. A kernel of an optimizer with reduced states has
//   float measure(const UpdateNumbers& n, int state, float gradient, float value) const
//   float reduced(const UpdateNumbers& n, int state, float mean, float before) const
// Before any element is updated, reduced() receives the mean of measure() over a row, a column or the whole, and returns the new
// state. `state` is its index. operator() and direction() read it at each element; writes are dropped. measure() must be 0 if
// value and gradient are 0. Norms are not available to these two functions. (Adafactor: rows and columns; NovoGrad: scalar.)
#pragma once

#include <math.h>

#include <type_traits>

#include "millrace/kernels/state_elements.h"
#include "millrace/kernels/update_elements.h"

// Follows a kernel in its header; use MILLRACE_MATRIX_KERNEL for scope `matrix`, MILLRACE_REDUCING_KERNEL with reduced states.
// nvcc compiles the kernel if KERNELS of millrace_add_plugin() lists the header.
#if defined(MILLRACE_DEVICE_CODE)
#define MILLRACE_UPDATE_KERNEL(...)                                                                      \
  MILLRACE_ELEMENTS(::millrace::UpdateElement<__VA_ARGS__>, ::millrace::SquaresOf<__VA_ARGS__>::Element, \
                    ::millrace::SquaresOfSegment)
#define MILLRACE_MATRIX_KERNEL(...)   \
  MILLRACE_UPDATE_KERNEL(__VA_ARGS__) \
  MILLRACE_ELEMENTS(::millrace::DirectionElement<__VA_ARGS__>)
#define MILLRACE_REDUCING_KERNEL(...)                                                           \
  MILLRACE_UPDATE_KERNEL(__VA_ARGS__)                                                           \
  MILLRACE_ELEMENTS(::millrace::ReduceRow<__VA_ARGS__>, ::millrace::ReduceColumns<__VA_ARGS__>, \
                    ::millrace::MeasureChunk<__VA_ARGS__>, ::millrace::ReduceParameter<__VA_ARGS__>)
#else
#define MILLRACE_UPDATE_KERNEL(...) static_assert(std::is_trivially_copyable_v<__VA_ARGS__>);
#define MILLRACE_MATRIX_KERNEL(...) static_assert(::millrace::MatrixKernel<__VA_ARGS__>);
#define MILLRACE_REDUCING_KERNEL(...) static_assert(::millrace::ReducingKernel<__VA_ARGS__>);
#endif
