// How the last block of a sum over rows finishes it without a second kernel.
//
// A block writes the sums of its chunk, then takes a ticket of its group of chunks. The block with a group's last ticket joins
// the group and takes a ticket of the groups. The block with the last of those joins the groups and finishes every channel of its
// packs: two short rounds instead of one block that reads a thousand chunks. The order of additions follows from the extents
// alone, so the order of the blocks does not matter.
//
// The device runs this after run_sums (device/launch.cuh); run_on_host.h runs the same code chunk by chunk.
#pragma once

#include "chunks.h"
#include "portable.h"

namespace millrace::cuda {

inline constexpr std::int64_t kGroupChunks = 32;                          // chunks that are joined first
inline constexpr std::int64_t kTickets = 1 + kMaxChunks / kGroupChunks;  // for the groups; then for each group's chunks

MILLRACE_HD std::int64_t chunk_groups(std::int64_t chunks) { return (chunks + kGroupChunks - 1) / kGroupChunks; }

// Memory of a sum for this: tickets, shared by sums that never run at once, and the sum's own groups.
struct LastBlock {
  std::uint32_t* tickets = nullptr;  // (sides, kTickets): zero before and after each sum. Null: another kernel finishes the sum
  double* groups = nullptr;          // (chunk_groups, sums, packs * 8)
};

inline std::size_t group_bytes(std::int64_t rows, std::int64_t packs, int sums) {
  return static_cast<std::size_t>(chunk_groups(chunks_of(rows, packs)) * sums * packs * kPack) * sizeof(double);
}
// Blocks side by side take up to 32 packs each.
inline std::size_t ticket_bytes(std::int64_t packs) {
  return static_cast<std::size_t>((packs + kColumnPacks - 1) / kColumnPacks * kTickets) * sizeof(std::uint32_t);
}

// A block's place among those of a sum.
struct SumPlace {
  std::int64_t chunks = 1, chunk = 0;
  std::int64_t side = 0;                // index among the blocks side by side
  std::int64_t channel = 0, width = 0;  // its channels
};

// Block: int thread(), threads(); bool comes_last(std::uint32_t* ticket, std::int64_t of), the same in all of its threads: true
// for the last of `of` blocks, which sees all earlier writes of the others; T load(const T*) reads data from other blocks.
//
// The sums of chunks [begin, end) of the array `sums`, where chunks are `step` apart.
template <class Block>
MILLRACE_HD double join_group(const Block& block, const float* sums, std::int64_t step, std::int64_t begin, std::int64_t end) {
  constexpr int kTogether = 8;  // concurrent loads
  double joined = 0;
  for (std::int64_t chunk = begin; chunk < end; chunk += kTogether) {
    float loaded[kTogether];
    MILLRACE_UNROLL for (int i = 0; i < kTogether; ++i) loaded[i] =
        chunk + i < end ? block.load(sums + (chunk + i) * step) : 0.0F;
    MILLRACE_UNROLL for (int i = 0; i < kTogether; ++i) joined += static_cast<double>(loaded[i]);
  }
  return joined;
}

// REQUIRES: the block's sums are in element.partial.
template <class Element, class Block>
MILLRACE_HD void finish_if_last(const Element& element, const Block& block, const SumPlace& at) {
  if (element.last.tickets == nullptr) return;
  constexpr std::int64_t kSums = Element::kSums;
  const std::int64_t channels = element.packs * kPack, step = kSums * channels;
  const std::int64_t group = at.chunk / kGroupChunks, begin = group * kGroupChunks;
  const std::int64_t end = begin + kGroupChunks < at.chunks ? begin + kGroupChunks : at.chunks;
  std::uint32_t* const tickets = element.last.tickets + at.side * kTickets;
  if (!block.comes_last(tickets + 1 + group, end - begin)) return;
  for (std::int64_t i = block.thread(); i < kSums * at.width; i += block.threads()) {
    const Division place = divide(i, at.width);
    const std::int64_t column = place.quotient * channels + at.channel + place.remainder;
    element.last.groups[group * step + column] = join_group(block, element.partial + column, step, begin, end);
  }
  const std::int64_t groups = chunk_groups(at.chunks);
  if (!block.comes_last(tickets, groups)) return;
  for (std::int64_t i = block.thread(); i < at.width; i += block.threads()) {
    double sums[kSums] = {};
    for (std::int64_t g = 0; g < groups; ++g) {
      MILLRACE_UNROLL for (int s = 0; s < kSums; ++s) {
        sums[s] += block.load(element.last.groups + g * step + s * channels + at.channel + i);
      }
    }
    element.finish.take(at.channel + i, sums);
  }
}

// Adds the accesses of finish_if_last() to an element's.
template <class Element, class Visitor>
void visit_last_block(Visitor& v, const Element& element) {
  if (element.last.tickets == nullptr) return;
  const auto tickets = static_cast<std::int64_t>(ticket_bytes(element.packs) / sizeof(std::uint32_t));
  visit_result(v, element.last.tickets, tickets, true);
  visit_write(v, element.last.groups,
              chunk_groups(chunks_of(element.rows, element.packs)) * Element::kSums * element.packs * kPack);
  element.finish.visit_results(v);
}

}  // namespace millrace::cuda
