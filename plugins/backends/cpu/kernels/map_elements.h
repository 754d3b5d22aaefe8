// Access to single elements of a map of any layout and type, for rare or small passes.
#pragma once

#include <cstdint>

#include "kernels/map.h"
#include "millrace/sample.h"

namespace millrace::cpu {

inline std::int64_t offset(const Map& map, std::int64_t n, std::int64_t channel, std::int64_t pixel) {
  return n * map.stride_n + channel / Map::kLanes * map.stride_block + pixel * map.stride_pixel + channel % Map::kLanes;
}
inline float get(const Map& map, std::int64_t at) {
  return map.type == DataType::bf16 ? from_bf16(static_cast<const std::uint16_t*>(map.data)[at])
                                    : static_cast<const float*>(map.data)[at];
}
inline void put(const Map& map, std::int64_t at, float value) {
  if (map.type == DataType::bf16) {
    static_cast<std::uint16_t*>(map.data)[at] = to_bf16(value);
  } else {
    static_cast<float*>(map.data)[at] = value;
  }
}
inline void* address(const Map& map, std::int64_t at) {
  return static_cast<char*>(map.data) + static_cast<std::size_t>(at) * size_of(map.type);
}

// Calls body(n) for every sample, distributed over the team.
template <class Body>
void for_each_sample(const Map& map, const Body& body) {
#pragma omp parallel for schedule(static) if (map.elements() > 16384)
  for (std::int64_t n = 0; n < map.n; ++n) body(n);
}

inline void zero_padding(const Map& map, std::int64_t n) {
  if (!map.padded || map.channels % Map::kLanes == 0) return;
  for (std::int64_t pixel = 0; pixel < map.pixels(); ++pixel) {
    for (std::int64_t c = map.channels; c < map.blocks() * Map::kLanes; ++c) put(map, offset(map, n, c, pixel), 0);
  }
}

}  // namespace millrace::cpu
