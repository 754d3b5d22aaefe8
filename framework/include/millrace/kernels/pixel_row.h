// Shared parts of kernels for images of classes; see pixel_loss.h.
#pragma once

#include "millrace/kernels/kernel.h"

namespace millrace {

// The class whose output, tensor 0 of the row, equals `largest`; the first of several.
template <class Row>
MILLRACE_KERNEL float class_of_largest(const Row& row, float largest) {
  const float first = -row.largest([&](auto c) { return row.in(0, c) == largest ? -static_cast<float>(c) : -1e9F; });
  return first < 1e8F ? first : 0.0F;  // NaN outputs equal nothing
}

// For a pixel without a class: writes no gradient, and 0 to the place's outputs 1 to `last`.
template <class Row>
MILLRACE_KERNEL void leave_pixel_out(Row& row, int last) {
  row.each([&](auto c) { row.out(0, c, 0.0F); });
  for (int i = 1; i <= last; ++i) row.place_out(i, 0.0F);
}

}  // namespace millrace
