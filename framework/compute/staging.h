// Copies between a tensor in memory and plain arrays of float32: (lines, channels) without gaps.
#pragma once

#include <cstdint>

#include "millrace/kernels/portable_element.h"

namespace millrace::portable {

// Places [first_line, first_line + lines), counted through all samples, and some of their channels.
struct Patch {
  std::int64_t first_line = 0, lines = 0;
  std::int64_t first_channel = 0, channels = 0;  // if a tensor has separate blocks: within one block, or lines == 1
  bool is_end = false;                           // the last channel is included: padding follows
};

// The patch in the tensor's memory if it has the layout of a float32 array there, and nothing is added or padded; else null.
float* in_place(const TensorView& view, std::int64_t pixels, const Patch& patch);

// The patch's values: in place if possible, else copied to `staged`.
const float* load(const TensorView& view, std::int64_t pixels, const Patch& patch, float* staged);
// Writes the patch, or adds it if the view requires; writes zeros after the last channel.
void store(const TensorView& view, std::int64_t pixels, const Patch& patch, const float* values);

// A place's number in a tensor that is not by channel.
float load_place(const TensorView& view, std::int64_t pixels, std::int64_t line);
void store_place(const TensorView& view, std::int64_t pixels, std::int64_t line, float value);

}  // namespace millrace::portable
