#include "convolution_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace millrace::gpu {
namespace {

double value_of(Tensor tensor, std::int64_t at) { return number_at(seed_of(tensor), at); }

bool is_data_gradient(GraphKind kind) {
  return kind == GraphKind::data_gradient || kind == GraphKind::data_gradient_add || kind == GraphKind::data_gradient_beta;
}
bool is_weight_gradient(GraphKind kind) { return kind == GraphKind::weight_gradient || kind == GraphKind::weight_gradient_f32; }

bool has_stats(GraphKind kind) { return kind == GraphKind::forward_stats || kind == GraphKind::scaled_stats; }
bool has_bias(GraphKind kind) {
  return kind == GraphKind::bias_relu || kind == GraphKind::bias_gelu || kind == GraphKind::bias_gelu_tanh;
}

double activated(GraphKind kind, double value) {
  switch (kind) {
    case GraphKind::bias_relu: return std::max(value, 0.0);
    case GraphKind::bias_gelu: return 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
    case GraphKind::bias_gelu_tanh:
      return 0.5 * value * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
    default: return value;
  }
}

// Row after row of maps (N, extent, extent, channels).
struct Place {
  std::int64_t n, row, column, channel;
};
Place place_in_map(std::int64_t at, std::int64_t extent, std::int64_t channels) {
  return {at / channels / extent / extent, at / channels / extent % extent, at / channels % extent, at % channels};
}
std::int64_t index_in_map(const Place& p, std::int64_t extent, std::int64_t channels) {
  return ((p.n * extent + p.row) * extent + p.column) * channels + p.channel;
}

double x_at(GraphKind kind, const ConvolutionCase& s, const Place& p) {
  const double x = value_of(Tensor::x, index_in_map(p, s.extent, s.c));
  if (kind != GraphKind::scaled_stats) return x;
  return std::max(x * value_of(Tensor::scale, p.channel) + value_of(Tensor::bias, p.channel), 0.0);
}

double w_at(const ConvolutionCase& s, std::int64_t k, std::int64_t row, std::int64_t column, std::int64_t c) {
  return value_of(Tensor::w, ((k * s.kernel + row) * s.kernel + column) * s.c + c);
}

double forward_at(GraphKind kind, const ConvolutionCase& s, const Place& y) {
  double sum = 0;
  for (std::int64_t i = 0; i < s.kernel; ++i) {
    for (std::int64_t j = 0; j < s.kernel; ++j) {
      const std::int64_t row = y.row * s.stride - s.padding() + i, column = y.column * s.stride - s.padding() + j;
      if (row < 0 || row >= s.extent || column < 0 || column >= s.extent) continue;
      for (std::int64_t c = 0; c < s.c; ++c) sum += x_at(kind, s, {y.n, row, column, c}) * w_at(s, y.channel, i, j, c);
    }
  }
  if (has_bias(kind)) sum += value_of(Tensor::bias, y.channel);
  return activated(kind, sum);
}

double data_gradient_at(const ConvolutionCase& s, const Place& x) {
  double sum = 0;
  const std::int64_t out = s.out_extent();
  for (std::int64_t i = 0; i < s.kernel; ++i) {
    for (std::int64_t j = 0; j < s.kernel; ++j) {
      const std::int64_t row = x.row + s.padding() - i, column = x.column + s.padding() - j;
      if (row < 0 || column < 0 || row % s.stride != 0 || column % s.stride != 0) continue;
      if (row / s.stride >= out || column / s.stride >= out) continue;
      for (std::int64_t k = 0; k < s.k; ++k) {
        const Place y{x.n, row / s.stride, column / s.stride, k};
        sum += value_of(Tensor::y, index_in_map(y, out, s.k)) * w_at(s, k, i, j, x.channel);
      }
    }
  }
  return sum;
}

double weight_gradient_at(const ConvolutionCase& s, std::int64_t at) {
  const std::int64_t c = at % s.c, j = at / s.c % s.kernel, i = at / s.c / s.kernel % s.kernel,
                     k = at / s.c / s.kernel / s.kernel;
  double sum = 0;
  for (std::int64_t place = 0; place < s.n * s.out_extent() * s.out_extent(); ++place) {
    const Place y = place_in_map(place * s.k + k, s.out_extent(), s.k);
    const std::int64_t row = y.row * s.stride - s.padding() + i, column = y.column * s.stride - s.padding() + j;
    if (row < 0 || row >= s.extent || column < 0 || column >= s.extent) continue;
    sum += value_of(Tensor::y, place * s.k + k) * value_of(Tensor::x, index_in_map({y.n, row, column, c}, s.extent, s.c));
  }
  return sum;
}

}  // namespace

std::string text_of(const ConvolutionCase& s) {
  return fmt::format("{} x {} x {} x {} by {} x {} to {}{}", s.n, s.c, s.extent, s.extent, s.kernel, s.kernel, s.k,
                     s.stride == 1 ? "" : fmt::format(", stride {}", s.stride));
}

const char* name_of(GraphKind kind) {
  switch (kind) {
    case GraphKind::forward: return "convolution";
    case GraphKind::forward_stats: return "convolution, statistics";
    case GraphKind::scaled_stats: return "scale, bias, ReLU, convolution, statistics";
    case GraphKind::bias_relu: return "convolution, bias, ReLU";
    case GraphKind::bias_gelu: return "convolution, bias, GELU";
    case GraphKind::bias_gelu_tanh: return "convolution, bias, GELU by tanh";
    case GraphKind::data_gradient: return "data gradient";
    case GraphKind::data_gradient_add: return "data gradient, add";
    case GraphKind::data_gradient_beta: return "data gradient with beta = 1";
    case GraphKind::weight_gradient: return "weight gradient";
    case GraphKind::weight_gradient_f32: return "weight gradient in float32";
  }
  return "";
}

std::vector<TensorUse> tensors_of(GraphKind kind, const ConvolutionCase& s, Numbers type) {
  const bool to_x = is_data_gradient(kind), to_w = is_weight_gradient(kind);
  const Numbers w_type = kind == GraphKind::weight_gradient_f32 ? Numbers::f32 : type;
  std::vector<TensorUse> uses{{Tensor::x, type, s.x_count(), to_x},
                              {Tensor::w, w_type, s.w_count(), to_w},
                              {Tensor::y, type, s.y_count(), !to_x && !to_w}};
  if (has_bias(kind)) uses.push_back({Tensor::bias, Numbers::f32, s.k, false});
  if (kind == GraphKind::scaled_stats) {
    // Float32, as batch norm has them; the engine that is part of cuDNN takes them in fp16 alone, like all else.
    const Numbers factors = type == Numbers::f16 ? type : Numbers::f32;
    uses.push_back({Tensor::scale, factors, s.c, false});
    uses.push_back({Tensor::bias, factors, s.c, false});
  }
  if (has_stats(kind)) {
    uses.push_back({Tensor::sum, Numbers::f32, s.k, true});
    uses.push_back({Tensor::squares, Numbers::f32, s.k, true});
  }
  if (kind == GraphKind::data_gradient_add) uses.push_back({Tensor::addend, type, s.x_count(), false});
  return uses;
}

Tensor result_of(GraphKind kind) { return is_data_gradient(kind) ? Tensor::x : is_weight_gradient(kind) ? Tensor::w : Tensor::y; }

double reference_at(GraphKind kind, const ConvolutionCase& s, std::int64_t at) {
  if (is_weight_gradient(kind)) return weight_gradient_at(s, at);
  if (!is_data_gradient(kind)) return forward_at(kind, s, place_in_map(at, s.out_extent(), s.k));
  const double gradient = data_gradient_at(s, place_in_map(at, s.extent, s.c));
  if (kind == GraphKind::data_gradient_add) return gradient + value_of(Tensor::addend, at);
  if (kind == GraphKind::data_gradient_beta) return gradient + value_of(Tensor::x, at);
  return gradient;
}

std::vector<std::int64_t> sample_places(std::int64_t count, int most) {
  std::vector<std::int64_t> places;
  const std::int64_t samples = std::min<std::int64_t>(count, most);
  for (std::int64_t i = 0; i < samples; ++i) places.push_back(samples == 1 ? 0 : i * (count - 1) / (samples - 1));
  return places;
}

}  // namespace millrace::gpu
