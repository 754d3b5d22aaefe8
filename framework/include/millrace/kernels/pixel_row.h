// What kernels of images of classes do alike; see pixel_loss.h.
#pragma once

#include "millrace/kernels/kernel.h"

namespace millrace {

// The class whose output, tensor 0 of the row, is the `largest`; the first of several.
template <class Row>
MILLRACE_KERNEL float class_of_largest(const Row& row, float largest) {
  const float first = -row.largest([&](auto c) { return row.in(0, c) == largest ? -static_cast<float>(c) : -1e9F; });
  return first < 1e8F ? first : 0.0F;  // outputs that are no numbers equal nothing
}

}  // namespace millrace
