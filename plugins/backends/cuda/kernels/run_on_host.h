// Runs an element in plain loops on the host, with groups of threads (see portable.h) of one lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

#include "chunks.h"
#include "columns.h"
#include "last_block.h"
#include "portable.h"

namespace millrace::cuda {

struct HostGroup {
  int lane() const { return 0; }
  int size() const { return 1; }
  template <class T>
  T sum(T value) const {
    return value;
  }
  template <class T>
  T largest(T value) const {
    return value;
  }
  void barrier() const {}
};

// A block of one thread (see last_block.h). Several may run at once.
struct HostBlock {
  int thread() const { return 0; }
  int threads() const { return 1; }
  bool comes_last(std::uint32_t* ticket, std::int64_t of) const {
    const std::atomic_ref<std::uint32_t> taken(*ticket);
    if (taken.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<std::uint64_t>(of)) return false;
    taken.store(0, std::memory_order_relaxed);
    return true;
  }
  template <class T>
  T load(const T* from) const {
    return *from;
  }
};

// A column's sums over rows [first, first + count) in the order of a device's block: each lane takes every lanes-th row, then
// halves are joined (run_sums of device/launch.cuh). One long float32 sum would round more than the device.
template <class Column, int kSums>
void sum_rows_on_host(const Column& column, std::int64_t packs, std::int64_t first, std::int32_t count,
                      float (&sums)[kSums][kPack]) {
  constexpr int kThreads = 256;
  std::int32_t lanes = kThreads;
  for (std::int64_t across = 1; across < packs && across < kColumnPacks; across *= 2) lanes /= 2;
  float of_lane[kThreads][kSums][kPack] = {};
  for (std::int32_t lane = 0; lane < lanes && lane < count; ++lane) {
    take_rows(column, {first + lane, lanes, (count - lane + lanes - 1) / lanes}, of_lane[lane]);
  }
  for (std::int32_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int32_t lane = 0; lane < half; ++lane) {
      for (int s = 0; s < kSums; ++s) {
        for (std::int64_t k = 0; k < kPack; ++k) of_lane[lane][s][k] += of_lane[lane + half][s][k];
      }
    }
  }
  std::memcpy(sums, of_lane[0], sizeof sums);
}

// Writes the sums of one chunk to its part of element.partial; the last one finishes the sum if requested.
template <class Column, class Element>
void sum_chunk_on_host(const Element& element, std::int64_t chunks, std::int64_t chunk) {
  const std::int64_t first = chunk_begin(element.rows, chunks, chunk), last = chunk_begin(element.rows, chunks, chunk + 1);
  for (std::int64_t pack = 0; pack < element.packs; ++pack) {
    float sums[Element::kSums][kPack] = {};
    sum_rows_on_host(Column(element, pack), element.packs, first, static_cast<std::int32_t>(last - first), sums);
    for (std::int64_t s = 0; s < Element::kSums; ++s) {
      store(element.partial + ((chunk * Element::kSums + s) * element.packs + pack) * kPack, sums[s]);
    }
  }
  for (std::int64_t side = 0; side * kColumnPacks < element.packs; ++side) {
    const std::int64_t packs = element.packs - side * kColumnPacks;
    const std::int64_t width = (packs < kColumnPacks ? packs : kColumnPacks) * kPack;
    finish_if_last(element, HostBlock(), {chunks, chunk, side, side * kColumnPacks * kPack, width});
  }
}

template <class Element>
void run_on_host(const Element& element) {
  if constexpr (Element::kForm == Form::each) {
    for (std::int64_t i = 0; i < element.size(); ++i) element(i);
  } else if constexpr (Element::kForm == Form::groups) {
    for (std::int64_t i = 0; i < element.size(); ++i) element(HostGroup{}, i);
  } else if constexpr (Element::kForm == Form::columns) {
    element.with_column([&]<class Column>(ColumnType<Column>) {
      const RowWalk rows{0, 1, static_cast<std::int32_t>(element.rows)};
      for (std::int64_t pack = 0; pack < element.packs; ++pack) take_rows(Column(element, pack), rows.reversed());
    });
  } else {
    element.with_column([&]<class Column>(ColumnType<Column>) {
      const std::int64_t chunks = chunks_of(element.rows, element.packs);
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum_chunk_on_host<Column>(element, chunks, chunk);
    });
  }
}

}  // namespace millrace::cuda
