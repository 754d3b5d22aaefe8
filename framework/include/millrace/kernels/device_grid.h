// How work is laid over a grid of threads. Plain arithmetic: known to the launcher, tested without a device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace {

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;
inline constexpr int kWarpsPerBlock = kBlockThreads / kWarpThreads;
// A whole number of sets, whether 1, 2, 3, 4, 6 or 8 blocks of a kernel fit on a multiprocessor at once, and nearly so of 5: none
// idles while the last blocks end. What a grid of this many blocks does not cover its threads reach in strides.
inline constexpr int kBlocksPerMultiprocessor = 24;

// Blocks for `items` of which a block takes `per_block` at a time. 0: nothing to launch.
constexpr unsigned blocks_for(std::int64_t items, std::int64_t per_block, int multiprocessors) {
  if (items <= 0) return 0;
  const std::int64_t wanted = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(std::min<std::int64_t>(wanted, std::int64_t{multiprocessors} * kBlocksPerMultiprocessor));
}

}  // namespace millrace
