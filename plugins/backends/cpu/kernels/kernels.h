// The passes over memory of a training step on the CPU that are neither convolution nor matrix product, fused to minimise reads
// and writes of maps; and depthwise convolution, where each channel has its own window.
//
// They are compiled for several instruction sets (the best one for this processor is chosen once). Example:
//   kernels().batch_statistics(x, mean, variance);
// Threading: a kernel runs on the caller's OpenMP team. Sums use fixed slices of the data, added in order, in double: results do
// not depend on the number of threads. REQUIRES, everywhere: maps of one call agree in type and in (n, channels, height, width)
// unless said otherwise (layouts may differ), and either are the same memory in the same layout ("in place") or do not overlap.
// Arrays by channel have `channels` elements, float32. Nullable arguments are documented. Ingest, dropout and copies between
// layouts are in ingest.h, dropout.h and rearrange.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/map.h"
#include "millrace/backend/activation.h"

namespace millrace::cpu {

using millrace::Activation;  // gelu within 1.5e-7 * max(1, |x|): piecewise polynomials, see gelu_table.h

struct PoolWindow {
  std::int64_t kernel_height = 2, kernel_width = 2;
  std::int64_t stride_height = 2, stride_width = 2;
  std::int64_t top = 0, left = 0;  // padding; each window contains at least one pixel
  bool count_padding = false;      // average: divide by the window's size instead of the pixels inside
};

// True if max pooling's index has 32 bits per element instead of 8.
inline bool has_wide_index(const PoolWindow& window) { return window.kernel_height * window.kernel_width > 256; }

// True if the depthwise kernels support this window; it may reach over the image's edge by less than its size.
inline bool fits_depthwise(const PoolWindow& window) {
  const auto has = [](std::int64_t kernel) { return kernel == 3 || kernel == 5 || kernel == 7; };
  const auto strides = [](std::int64_t stride) { return stride == 1 || stride == 2; };
  return has(window.kernel_height) && has(window.kernel_width) && strides(window.stride_height) && strides(window.stride_width) &&
         window.top < window.kernel_height && window.left < window.kernel_width;
}

// A convolution of 3x3 windows at every pixel.
struct WinogradShape {
  std::int64_t in = 0, out = 0;    // channels; multiples of 16
  std::int64_t top = 0, left = 0;  // padding, at most 2; the result's size implies that of the other sides

  WinogradShape backward() const { return {out, in, 2 - top, 2 - left}; }  // the one for the input's gradient
};

// Such a convolution by Winograd's algorithm F(2 x 2, 3 x 3) (Lavin and Gray, arXiv 1509.09308), of maps of one type. In bf16
// transformed weights and pixels are rounded to bf16, so that results differ from a direct convolution's by 5e-3 in relative
// norm. A non-finite value makes its whole tile of 2 x 2 results non-finite.
struct WinogradKernels {
  std::size_t value_bytes;
  // Weights are (out, in, 3, 3) float32; transformed_bytes() of memory. backward: for the gradient of the input.
  void (*transform_weights)(const WinogradShape& shape, const float* weights, bool backward, void* transformed);
  std::size_t transformed_bytes(const WinogradShape& shape) const {
    return static_cast<std::size_t>(16 * shape.in * shape.out) * value_bytes;
  }
  // bias may be null. relu: applied to the result.
  void (*convolve)(const WinogradShape& shape, const Map& x, const void* transformed, const float* bias, bool relu, const Map& y);
  // memory: backward_floats() floats, aligned to 64 bytes, independent of dy's data.
  std::size_t (*backward_floats)(const WinogradShape& shape, const Map& dy);
  void (*backward_weights)(const WinogradShape& shape, const Map& x, const Map& dy, float* memory, float* d_weights);
};

// y = activation((x - mean) * inverse_deviation * scale + shift + residual)
struct NormaliseArguments {
  Map x, y;  // y may be x
  const float* mean = nullptr;
  const float* variance = nullptr;  // biased (the batch's), or the running one in inference
  float epsilon = 0;
  const float* scale = nullptr;  // null: 1
  const float* shift = nullptr;  // null: 0
  Activation activation = Activation::none;
  const Map* residual = nullptr;  // null: none; may be y
};

// Backward of batch normalisation with the activation after it. `dy` is the gradient after the activation; the pre-activation is
// recomputed from x (and residual), so that forward need not keep it.
struct NormaliseBackwardArguments {
  Map x, dy;
  const float* mean = nullptr;
  const float* variance = nullptr;  // the batch's, from batch_statistics()
  float epsilon = 0;
  const float* scale = nullptr;  // null: 1
  const float* shift = nullptr;  // null: 0
  Activation activation = Activation::none;
  const Map* residual = nullptr;  // as in forward; needed if there was one and the activation is gelu
  const Map* y = nullptr;         // output of forward: used for relu instead of the residual
};

// Batch normalisation.
struct NormalisationKernels {
  // Mean and biased variance of each channel over (n, height, width), in one pass, accurate for means far from zero.
  void (*batch_statistics)(const Map& x, float* mean, float* variance);
  void (*normalise)(const NormaliseArguments& arguments);
  // Pass 1. With g = dy * activation'(pre-activation): d_shift = sum g, d_scale = sum g * (x - mean) * inverse_deviation; both
  // are required because pass 2 needs them. d_residual (may be null, may be dy) becomes g.
  void (*normalise_backward_sums)(const NormaliseBackwardArguments& arguments, float* d_shift, float* d_scale,
                                  const Map* d_residual);
  // Pass 2. dx = scale * inverse_deviation * (g - (d_shift + x_hat * d_scale) / count), count = n * height * width summed over
  // all replicas that share statistics. dx may be dy or x. After a pass 1 that wrote g, call it with dy = g and Activation::none.
  void (*normalise_backward)(const NormaliseBackwardArguments& arguments, const float* d_shift, const float* d_scale,
                             double count, const Map& dx);
  // Pass 2 with the backward of a max pooling before the normalisation: dx is the pooling's input.
  // REQUIRES: windows do not overlap (kernel <= stride), and have no wide index.
  void (*normalise_backward_unpool)(const NormaliseBackwardArguments& arguments, const float* d_shift, const float* d_scale,
                                    double count, const PoolWindow& window, const std::uint8_t* index, const Map& dx);
};

// y is the smaller map; x and y agree in type, n and channels.
struct PoolingKernels {
  // index (n, blocks, y.pixels, 16), a byte for each element, or std::int32_t if has_wide_index(): position of the largest value
  // in its window (row * kernel_width + column; the first of equal ones; NaN counts as largest); null in inference. mean and
  // variance of y for a following batch normalisation, computed in the same pass; both may be null.
  void (*max_pool)(const PoolWindow& window, const Map& x, const Map& y, void* index, float* mean, float* variance);
  void (*max_pool_backward)(const PoolWindow& window, const void* index, const Map& dy, const Map& dx);
  void (*average_pool)(const PoolWindow& window, const Map& x, const Map& y);
  void (*average_pool_backward)(const PoolWindow& window, const Map& dy, const Map& dx);
};

// Depthwise convolution. REQUIRES: fits_depthwise(window); y has the convolution's output size, with padding at the bottom and
// right smaller than the window. weights (blocks, kernel_height, kernel_width, 16) of the maps' type, zero past the last channel;
// d_weights float32. bias may be null. relu: applied to the result.
struct DepthwiseKernels {
  void (*depthwise)(const PoolWindow& window, const Map& x, const void* weights, const float* bias, bool relu, const Map& y);
  void (*depthwise_backward_data)(const PoolWindow& window, const Map& dy, const void* weights, const Map& dx);
  void (*depthwise_backward_weights)(const PoolWindow& window, const Map& x, const Map& dy, float* d_weights);
};

struct ElementwiseKernels {
  void (*activate)(Activation activation, const Map& x, const Map& y);  // y may be x
  // dx = dy * activation'(x); for relu x may be forward's y. dx: null if not wanted; may be dy. d_bias: null if not wanted; else
  // the sum of dx by channel: the bias gradient of the layer before.
  void (*activate_backward)(Activation activation, const Map& x, const Map& dy, const Map* dx, float* d_bias);
  void (*add)(const Map& a, const Map& b, const Map& y);  // y may be a or b
  void (*scale)(float factor, const Map& x, const Map& y);
  void (*fill_zero)(const Map& y);
};

// Local response normalisation across channels: y = x * s^-beta, s = k + alpha / size * sum of x^2 over the `size` surrounding
// channels.
struct LrnWindow {
  std::int64_t size = 1;  // odd
  float alpha = 0, beta = 0, k = 1;
};
struct LrnKernels {
  void (*lrn)(const LrnWindow& window, const Map& x, const Map& y);  // y must not be x
  void (*lrn_backward)(const LrnWindow& window, const Map& x, const Map& dy, const Map& dx);
};

// Arrays are disjoint or the same.
struct ArrayKernels {
  // copy = decay * copy + (1 - decay) * value; then value = copy if write_back.
  void (*blend)(float* value, float* copy, double decay, bool write_back, std::size_t elements);
  // to[i] = from[0][i] + from[1][i] + ..., in this order; `to` may be one of them.
  void (*sum)(float* to, const float* const* from, std::size_t sources, std::size_t elements);
  void (*to_bf16)(const float* from, std::uint16_t* to, std::size_t elements);
  void (*to_f32)(const std::uint16_t* from, float* to, std::size_t elements);
};

// All kernels for one instruction set.
struct Kernels : NormalisationKernels, PoolingKernels, DepthwiseKernels, ElementwiseKernels, LrnKernels, ArrayKernels {
  const char* instruction_set;
  bool bf16;                                            // supports bf16 maps; otherwise float32 only
  const WinogradKernels *winograd_bf16, *winograd_f32;  // null if not available
  const WinogradKernels* winograd(DataType type) const { return type == DataType::bf16 ? winograd_bf16 : winograd_f32; }
};

// Null, or the reason why this processor cannot run the kernels (x86-64 without AVX2).
const char* kernels_unavailable_reason();
// REQUIRES: kernels_unavailable_reason() == nullptr.
const Kernels& kernels();
// All that this processor can run, best first, for tests and benchmarks; null-terminated.
const Kernels* const* all_kernels();

// running = (1 - momentum) * running + momentum * new; the running variance is unbiased: times count / (count - 1). A channel
// with new values that are not finite stays unchanged.
void update_running(const float* mean, const float* variance, std::int64_t channels, double count, double momentum,
                    float* running_mean, float* running_variance);

}  // namespace millrace::cpu
