// How the rows of a map are cut into parts that blocks of threads take independently. Sums of parts are joined by FinishMoments and
// FinishSums.
#pragma once

#include "portable.h"

namespace millrace::cuda {

inline constexpr std::int64_t kMostChunks = 1024;  // parts that the rows of a map are cut into, at most
inline constexpr std::int64_t kColumnPacks =
    32;  // packs that one block takes side by side, at most; its other threads share out rows

// The device gives each block of 256 threads one part of up to 32 packs: enough blocks for some 130 multiprocessors, but no thread
// with fewer than `rows_of_thread` rows.
MILLRACE_HD std::int64_t parts_of(std::int64_t rows, std::int64_t packs, std::int64_t rows_of_thread) {
  constexpr std::int64_t kBlocks = 1024, kThreads = 256;
  const std::int64_t across = packs < kColumnPacks ? packs : kColumnPacks;
  if (across < 1) return 1;
  const std::int64_t wanted = kBlocks / ((packs + kColumnPacks - 1) / kColumnPacks) + 1;
  const std::int64_t possible = rows / (kThreads / across * rows_of_thread);
  const std::int64_t parts = wanted < possible ? wanted : possible;
  return parts < 1 ? 1 : parts < kMostChunks ? parts : kMostChunks;
}

// The parts of a sum. A function of the extents alone, so that results do not depend on the device; partial sums stay a small
// share of the map.
MILLRACE_HD std::int64_t chunks_of(std::int64_t rows, std::int64_t packs) { return parts_of(rows, packs, 8); }

// Chunk c holds the rows [chunk_begin(c), chunk_begin(c + 1)).
MILLRACE_HD std::int64_t chunk_begin(std::int64_t rows, std::int64_t chunks, std::int64_t chunk) { return rows * chunk / chunks; }

inline std::size_t partial_bytes(std::int64_t rows, std::int64_t packs, int sums) {
  return static_cast<std::size_t>(chunks_of(rows, packs) * sums * packs * kPack) * sizeof(float);
}

// One lane group's share of joining them: the sum over chunks of partial[chunk][s][channel], in double, in a fixed order.
template <class Group>
MILLRACE_HD double sum_of_chunks(const Group& group, const float* partial, std::int64_t chunks, std::int64_t sums, std::int64_t s,
                                 std::int64_t channels, std::int64_t channel) {
  double sum = 0;
  for (std::int64_t chunk = group.lane(); chunk < chunks; chunk += group.size()) {
    sum += static_cast<double>(partial[(chunk * sums + s) * channels + channel]);
  }
  return group.sum(sum);
}

}  // namespace millrace::cuda
