// Distributes work over a grid of threads. Plain arithmetic, testable without a device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace {

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;
inline constexpr int kWarpsPerBlock = kBlockThreads / kWarpThreads;
// Divisible by 1, 2, 3, 4, 6 and 8, and nearly by 5: however many blocks of a kernel fit on a multiprocessor, none idles while
// the last blocks end. Threads stride over items beyond the grid.
inline constexpr int kBlocksPerMultiprocessor = 24;

// Number of blocks for `items` if each takes `per_block` at a time. 0: nothing to launch.
constexpr unsigned blocks_for(std::int64_t items, std::int64_t per_block, int multiprocessors) {
  if (items <= 0) return 0;
  const std::int64_t wanted = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(std::min<std::int64_t>(wanted, std::int64_t{multiprocessors} * kBlocksPerMultiprocessor));
}

}  // namespace millrace
