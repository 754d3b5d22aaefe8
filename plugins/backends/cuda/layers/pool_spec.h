// Converts a network's pooling to kernel arguments.
#pragma once

#include "kernels/pool.h"
#include "map_spec.h"
#include "millrace/backend/network.h"

namespace millrace::cuda {

inline PoolWindow window_of(const PoolAttributes& pool) {
  const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
  return {narrow(pool.kernel.height), narrow(pool.kernel.width), narrow(pool.stride.height), narrow(pool.stride.width),
          narrow(pool.padding.top),   narrow(pool.padding.left), pool.count_padding};
}

inline PoolExtents extents_of(const MapSpec& from, const MapSpec& to) {
  const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
  return {from.n, narrow(from.height), narrow(from.width), narrow(to.height), narrow(to.width), narrow(from.row_packs())};
}

}  // namespace millrace::cuda
