// The loops of depthwise convolution with sums in registers, for each number of neighbours in a row (1, 2, 3, 4, 5, 7). All rows
// are float32, 16 channels per pixel, aligned to 64 bytes, and zero outside the image.
#pragma once

#include "kernels/isa/lanes.h"

namespace millrace::cpu::MILLRACE_ISA {

// A row of pixels and the row of weights that multiplies it.
struct WindowRow {
  const float* pixels;
  const float* weights;
};
struct WindowRows {
  const WindowRow* rows;
  int count;
  std::int64_t start, first;  // in floats: offsets of the first pixel and of the first weight in their rows
};

// sums[i] = sum of pixels[stride * i + k] * weights[k] over rows and neighbours k, for i < count. Reads and writes up to 3 sums
// more.
using RowKernel = void(const WindowRows& rows, std::int64_t count, float* sums);
RowKernel* row_kernel(std::int64_t taps, std::int64_t stride);

// sums[k] += sum of pixels[stride * i + k] * gradient[i] over i < count. For 3, 5, and 7 neighbours.
using CorrelateKernel = void(const float* pixels, const float* gradient, std::int64_t count, float* sums);
CorrelateKernel* correlate_kernel(std::int64_t taps, std::int64_t stride);

}  // namespace millrace::cpu::MILLRACE_ISA
