// Maps columns to a grid of threads. Plain arithmetic, used by the launcher and tested without a device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/chunks.h"
#include "kernels/columns.h"
#include "kernels/last_block.h"
#include "millrace/kernels/device_grid.h"

namespace millrace::cuda {

// A block of columns is `packs` wide and kBlockThreads / packs high: for narrow maps, threads take more rows at once. Both are
// powers of two, and functions of the extents alone, since they decide the order of a sum.
struct ColumnBlock {
  int packs = kWarpThreads;
  MILLRACE_HD int rows() const { return kBlockThreads / packs; }
};
constexpr ColumnBlock column_block(std::int64_t packs) {
  ColumnBlock block{1};
  while (block.packs < kWarpThreads && block.packs < packs) block.packs *= 2;
  return block;
}
constexpr unsigned column_blocks(std::int64_t packs) {  // blocks side by side that cover the packs of a row
  const ColumnBlock block = column_block(packs);
  return static_cast<unsigned>((packs + block.packs - 1) / block.packs);
}

// One thread's share of its block's part of the map: every block.rows()-th row of one pack.
struct ColumnShare {
  std::int64_t pack = 0;
  RowWalk rows;
};
struct ColumnPlace {
  std::int64_t parts = 1, part = 0;  // part `part` of `parts` of the rows
  std::int64_t side = 0;             // index of the block among those side by side
  int thread = 0;
};
MILLRACE_HD ColumnShare column_share(std::int64_t rows, const ColumnBlock& block, const ColumnPlace& at) {
  const std::int64_t end = chunk_begin(rows, at.parts, at.part + 1);
  const std::int64_t first = chunk_begin(rows, at.parts, at.part) + at.thread / block.packs;
  const std::int64_t count = first < end ? (end - first + block.rows() - 1) / block.rows() : 0;
  return {at.side * block.packs + at.thread % block.packs, {first, block.rows(), static_cast<std::int32_t>(count)}};
}

// The same block's place in a sum.
MILLRACE_HD SumPlace sum_place(std::int64_t packs, const ColumnBlock& block, const ColumnPlace& at) {
  const std::int64_t first = at.side * block.packs, here = packs - first < block.packs ? packs - first : block.packs;
  return {at.parts, at.part, at.side, first * kPack, here * kPack};
}

}  // namespace millrace::cuda
