#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

// x, weight, bias -> y, mean, inverse deviation
struct LayerNormKernel {
  static constexpr int kReads = 3, kWrites = 3;
  float epsilon;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float count = static_cast<float>(row.channels());
    const float mean = row.sum([&](auto c) { return row.in(0, c); }) / count;
    const float variance = row.sum([&](auto c) {
      const float far = row.in(0, c) - mean;
      return far * far;
    }) / count;
    const float inverse = 1.0F / math::sqrt(variance + epsilon);
    row.each([&](auto c) { row.out(0, c, (row.in(0, c) - mean) * inverse * row.in(1, c) + row.in(2, c)); });
    row.place_out(1, mean);
    row.place_out(2, inverse);
  }
};

// x, dy, weight, mean, inverse deviation -> dx. With g = dy * weight and h = (x - mean) * inverse:
// dx = inverse * (g - mean of g - h * mean of (g * h))
struct LayerNormGradient {
  static constexpr int kReads = 5, kWrites = 1;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float mean = row.place_in(3), inverse = row.place_in(4);
    const float count = static_cast<float>(row.channels());
    const float g = row.sum([&](auto c) { return row.in(1, c) * row.in(2, c); }) / count;
    const float gh = row.sum([&](auto c) { return row.in(1, c) * row.in(2, c) * ((row.in(0, c) - mean) * inverse); }) / count;
    row.each([&](auto c) {
      const float h = (row.in(0, c) - mean) * inverse;
      row.out(0, c, inverse * (row.in(1, c) * row.in(2, c) - g - h * gh));
    });
  }
};

// dy, x, mean, inverse deviation -> the weight's gradient
struct LayerNormWeightTerm {
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float dy, float x, float mean, float inverse) const { return dy * (x - mean) * inverse; }
};
struct LayerNormBiasTerm {
  static constexpr bool kSum = true;
  MILLRACE_KERNEL float operator()(float dy) const { return dy; }
};

MILLRACE_KERNELS(LayerNormKernel, LayerNormGradient, LayerNormWeightTerm, LayerNormBiasTerm)

}  // namespace millrace::layers
