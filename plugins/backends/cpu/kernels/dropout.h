// Dropout of a map in any layout. Threading: the OpenMP team of the caller; results do not depend on it.
#pragma once

#include <cstdint>

#include "kernels/map.h"

namespace millrace::cpu {

// Inverted dropout. Each decision is a function of (seed, step, layer, first_sample + n, c, h, w) alone, without the coordinates
// that are dropped together. So backward is the same call on the gradient, and neither layout, threads nor the split over
// replicas matters.
struct DropoutKey {
  std::uint64_t seed = 0, step = 0;
  std::uint32_t layer = 0;
  std::uint64_t first_sample = 0;  // position of row 0 in the global batch
  double probability = 0.5;
  bool by_channel = true, by_pixel = true;  // as in DropoutAttributes
};
void dropout(const DropoutKey& key, const Map& x, const Map& y);  // y may be x

}  // namespace millrace::cpu
