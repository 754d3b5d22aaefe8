// Which convolutions cuDNN is asked about, in which graphs, and what their results must be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels.h"

namespace millrace::gpu {

// Square maps, channels last; padding keeps the extent of a kernel of stride 1.
struct ConvolutionCase {
  std::int64_t n, c, extent, k, kernel, stride;

  std::int64_t padding() const { return kernel / 2; }
  std::int64_t out_extent() const { return (extent + 2 * padding() - kernel) / stride + 1; }
  std::int64_t x_count() const { return n * extent * extent * c; }
  std::int64_t w_count() const { return k * kernel * kernel * c; }
  std::int64_t y_count() const { return n * out_extent() * out_extent() * k; }
};
std::string text_of(const ConvolutionCase& shape);  // "256 x 64 x 56 x 56 by 1 x 1 to 256"

enum class GraphKind : std::uint8_t {
  forward,              // y = x * w
  forward_stats,        // and the sum of y and of its square over each channel
  scaled_stats,         // of relu(x * scale + bias) instead of x
  bias_relu,            // y = relu(x * w + bias)
  bias_gelu,            // by the error function
  bias_gelu_tanh,       // by tanh
  data_gradient,        // dx = dy * w
  data_gradient_add,    // dx = dy * w + addend
  data_gradient_beta,   // dx = dy * w + dx
  weight_gradient,      // dw = x * dy
  weight_gradient_f32,  // dw in float32
};
const char* name_of(GraphKind kind);

// Tensors of these graphs, and their ids for cuDNN. `x` and `y` are the maps or their gradients. Layouts: x (N, H, W, C),
// y (N, P, Q, K), w (K, R, S, C), bias, sum and squares (K), or (C) for the bias of scaled_stats, scale (C).
enum class Tensor : std::int8_t { x = 1, w, y, bias, scale, sum, squares, addend };

struct TensorUse {
  Tensor tensor;
  Numbers type;
  std::int64_t count;
  bool written;
};
// All that a graph reads and writes; maps and weights are `type`.
std::vector<TensorUse> tensors_of(GraphKind kind, const ConvolutionCase& shape, Numbers type);
Tensor result_of(GraphKind kind);  // the one that reference_at() knows
inline std::uint32_t seed_of(Tensor tensor) { return static_cast<std::uint32_t>(tensor); }

// Element `at` of the result when every tensor that is read was filled with seed_of() it, and dx of data_gradient_beta before.
// By plain loops in double.
double reference_at(GraphKind kind, const ConvolutionCase& shape, std::int64_t at);

// Elements all over the result, with the first and the last.
std::vector<std::int64_t> sample_places(std::int64_t count, int most);

}  // namespace millrace::gpu
