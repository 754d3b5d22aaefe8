// Layout of a parameter in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/portable.h"

namespace millrace::cuda {

// A parameter in the network's order, (out, in, height, width), and in memory: (out_pitch, height, width, in_pitch).
struct WeightLayout {
  std::int64_t out = 0, in = 1, height = 1, width = 1;
  std::int64_t out_pitch = 0, in_pitch = 1;

  static WeightLayout vector(std::int64_t elements) { return {elements, 1, 1, 1, pitch_of(elements), 1}; }
  std::size_t elements() const { return static_cast<std::size_t>(out_pitch * height * width * in_pitch); }
  // The layout of one number for each column of the matrix (out, all others).
  WeightLayout of_columns() const { return {1, in, height, width, 1, in_pitch}; }
  friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};
// Converts between the two orders; padding becomes zero.
std::vector<float> to_memory(const WeightLayout& layout, std::span<const float> values);
std::vector<float> from_memory(const WeightLayout& layout, std::span<const float> memory);

}  // namespace millrace::cuda
