// How work is laid over a grid of threads. Plain arithmetic: known to the launcher, tested without a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "../elements/portable.h"

namespace millrace::cuda {

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;
inline constexpr int kWarpsPerBlock = kBlockThreads / kWarpThreads;
// Two sets of the eight blocks that fit on a multiprocessor, so that none idles while the last blocks of a set end. What a grid
// of this many blocks does not cover its threads reach in strides.
inline constexpr int kBlocksPerMultiprocessor = 16;

// Blocks for `items` of which a block takes `per_block` at a time. 0: nothing to launch.
constexpr unsigned blocks_for(std::int64_t items, std::int64_t per_block, int multiprocessors) {
  if (items <= 0) return 0;
  const std::int64_t wanted = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(std::min<std::int64_t>(wanted, std::int64_t{multiprocessors} * kBlocksPerMultiprocessor));
}

// Blocks for the packs of `rows` whose threads together make whole rows: a thread that goes on by as many packs as there are
// threads comes to the same pack of another row. Of 256 packs and all powers of two below any number of blocks does.
constexpr unsigned blocks_for_rows(std::int64_t rows, std::int64_t packs, int multiprocessors) {
  const std::int64_t step = packs / std::gcd(packs, std::int64_t{kBlockThreads});
  const auto most = static_cast<std::int64_t>(blocks_for(std::numeric_limits<std::int32_t>::max(), 1, multiprocessors));
  const auto wanted = static_cast<std::int64_t>(blocks_for(rows * packs, kBlockThreads, multiprocessors));
  const std::int64_t up = (wanted + step - 1) / step * step;
  return static_cast<unsigned>(up <= most || wanted < step ? up : wanted / step * step);
}

// A block of a sum over rows is `packs` wide and kBlockThreads / packs high: narrow maps give their threads to more rows at once.
// Both are powers of two, and functions of the extents alone, since they decide the order of the sum.
struct ColumnBlock {
  int packs = kWarpThreads;
  int rows() const { return kBlockThreads / packs; }
};
constexpr ColumnBlock column_block(std::int64_t packs) {
  ColumnBlock block{1};
  while (block.packs < kWarpThreads && block.packs < packs) block.packs *= 2;
  return block;
}
constexpr unsigned column_blocks(std::int64_t packs) {  // side by side over the packs of a row
  const ColumnBlock block = column_block(packs);
  return static_cast<unsigned>((packs + block.packs - 1) / block.packs);
}

}  // namespace millrace::cuda
