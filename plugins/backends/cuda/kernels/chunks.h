// How the rows of a map are divided into parts that blocks of threads process independently. FinishMoments and FinishSums join
// sums of parts.
#pragma once

#include "portable.h"

namespace millrace::cuda {

inline constexpr std::int64_t kMaxChunks = 1024;  // maximum number of parts of a map's rows
inline constexpr std::int64_t kColumnPacks =
    32;  // maximum packs that one block takes side by side; its other threads share the rows

// The device gives each block of 256 threads one part of up to 32 packs: enough blocks for some 130 multiprocessors, but no
// thread with fewer than `rows_of_thread` rows.
MILLRACE_HD std::int64_t parts_of(std::int64_t rows, std::int64_t packs, std::int64_t rows_of_thread) {
  constexpr std::int64_t kBlocks = 1024, kThreads = 256;
  const std::int64_t across = packs < kColumnPacks ? packs : kColumnPacks;
  if (across < 1) return 1;
  const std::int64_t wanted = kBlocks / ((packs + kColumnPacks - 1) / kColumnPacks) + 1;
  const std::int64_t possible = rows / (kThreads / across * rows_of_thread);
  const std::int64_t parts = wanted < possible ? wanted : possible;
  return parts < 1 ? 1 : parts < kMaxChunks ? parts : kMaxChunks;
}

// The parts of a sum. Depends on the extents alone, so that results do not depend on the device; partial sums stay a small
// fraction of the map.
MILLRACE_HD std::int64_t chunks_of(std::int64_t rows, std::int64_t packs) { return parts_of(rows, packs, 8); }

// Chunk c holds the rows [chunk_begin(c), chunk_begin(c + 1)).
MILLRACE_HD std::int64_t chunk_begin(std::int64_t rows, std::int64_t chunks, std::int64_t chunk) { return rows * chunk / chunks; }

inline std::size_t partial_bytes(std::int64_t rows, std::int64_t packs, int sums) {
  return static_cast<std::size_t>(chunks_of(rows, packs) * sums * packs * kPack) * sizeof(float);
}

// (chunks, sums, channels): the sums of the parts.
struct PartialSums {
  const float* data = nullptr;
  std::int64_t chunks = 0, sums = 1, channels = 0;
};

// One lane group's share of joining them: for one channel the sums `first`, `first + 1`, ... over chunks, in double, in a fixed
// order.
template <int kCount, class Group>
MILLRACE_HD void join_chunks(const Group& group, const PartialSums& partial, std::int64_t first, std::int64_t channel,
                             double (&joined)[kCount]) {
  for (double& sum : joined) sum = 0;
  for (std::int64_t chunk = group.lane(); chunk < partial.chunks; chunk += group.size()) {
    const float* const at = partial.data + (chunk * partial.sums + first) * partial.channels + channel;
    MILLRACE_UNROLL for (int s = 0; s < kCount; ++s) joined[s] += static_cast<double>(at[s * partial.channels]);
  }
  for (double& sum : joined) sum = group.sum(sum);
}

}  // namespace millrace::cuda
