// Compiled once per instruction set. MILLRACE_ISA is the namespace, set by the build with the compiler's flags. These sources use
// nothing of the standard library that could be instantiated: the linker must never keep a function template compiled with
// AVX-512 for all callers.
#pragma once

#include <cstddef>

#include "kernels/gelu_table.h"
#include "kernels/kernels.h"

namespace millrace::cpu {

// Memory of the calling thread that the next call may reuse; uninitialised, aligned to 64 bytes.
double* scratch(std::size_t count);

namespace avx2 {
extern const Kernels kTable;
extern const WinogradKernels kWinograd;  // for float32
}  // namespace avx2
namespace avx512 {
extern const Kernels kTable;
extern const WinogradKernels kWinograd;  // for float32
}  // namespace avx512
namespace avx512_bf16 {
extern const Kernels kTable;
extern const WinogradKernels kWinograd;  // for bf16
}  // namespace avx512_bf16

namespace MILLRACE_ISA {

void batch_statistics(const Map& x, float* mean, float* variance);
void normalise(const NormaliseArguments& arguments);
void normalise_backward_sums(const NormaliseBackwardArguments& arguments, float* d_shift, float* d_scale, const Map* d_residual);
void normalise_backward(const NormaliseBackwardArguments& arguments, const float* d_shift, const float* d_scale, double count,
                        const Map& dx);
void normalise_backward_unpool(const NormaliseBackwardArguments& arguments, const float* d_shift, const float* d_scale,
                               double count, const PoolWindow& window, const std::uint8_t* index, const Map& dx);
void max_pool(const PoolWindow& window, const Map& x, const Map& y, void* index, float* mean, float* variance);
void max_pool_backward(const PoolWindow& window, const void* index, const Map& dy, const Map& dx);
void average_pool(const PoolWindow& window, const Map& x, const Map& y);
void average_pool_backward(const PoolWindow& window, const Map& dy, const Map& dx);
void depthwise(const PoolWindow& window, const Map& x, const void* weights, const float* bias, bool relu, const Map& y);
void depthwise_backward_data(const PoolWindow& window, const Map& dy, const void* weights, const Map& dx);
void depthwise_backward_weights(const PoolWindow& window, const Map& x, const Map& dy, float* d_weights);
std::size_t winograd_backward_floats(const WinogradShape& shape, const Map& dy);
void winograd_backward_weights(const WinogradShape& shape, const Map& x, const Map& dy, float* memory, float* d_weights);
void activate(Activation activation, const Map& x, const Map& y);
void activate_backward(Activation activation, const Map& x, const Map& dy, const Map* dx, float* d_bias);
void add(const Map& a, const Map& b, const Map& y);
void scale(float factor, const Map& x, const Map& y);
void fill_zero(const Map& y);
void lrn(const LrnWindow& window, const Map& x, const Map& y);
void lrn_backward(const LrnWindow& window, const Map& x, const Map& dy, const Map& dx);
void blend(float* value, float* copy, double decay, bool write_back, std::size_t elements);
void sum(float* to, const float* const* from, std::size_t sources, std::size_t elements);
void to_bf16(const float* from, std::uint16_t* to, std::size_t elements);
void to_f32(const std::uint16_t* from, float* to, std::size_t elements);

}  // namespace MILLRACE_ISA
}  // namespace millrace::cpu
