// Computes maps column by column, for operations whose rows all need the same few numbers per channel.
//
// A column holds one thread's numbers for eight channels, read once for its many rows:
//
//   struct Column { using Element = ...;
//                   using Packs = ...;                                          // a row's input from the maps, as stored
//                   static constexpr int kAhead = ..., kBlocks = ...;           // rows that are read together; blocks of threads
//                                                                               // that should fit on a multiprocessor
//                   MILLRACE_HD Column(const Element& element, std::int64_t pack);  // must not outlive the element
//                   MILLRACE_HD Packs read(std::int64_t row) const;             // loads only
//                   MILLRACE_HD void use(std::int64_t row, const Packs& packs) const;
//                   // for Form::sums: use(row, packs, float (&sums)[kSums][8])
//                 };
//
// An element has several column types if an activation or an option changes a row's computation: with_column() chooses one on the
// host and calls use(ColumnType<Column>()), so that rows need no checks.
#pragma once

#include <type_traits>

#include "portable.h"

namespace millrace::cuda {

template <class Column>
struct ColumnType {};

// use(flag) with the flag as a constant.
template <class Use>
auto with_flag(bool flag, const Use& use) {
  return flag ? use(std::true_type()) : use(std::false_type());
}

// Number of rows of T to read together, if `rows` of bf16 fit in registers.
template <class T>
constexpr int rows_ahead(int rows) {
  return rows * static_cast<int>(sizeof(Bf16)) / static_cast<int>(sizeof(T));
}

// Offset of a row's pack in the element's maps.
template <class Element>
MILLRACE_HD std::int64_t pack_at(const Element& element, std::int64_t row, std::int64_t pack) {
  return (row * element.packs + pack) * kPack;
}

// The rows first, first + step, ... of one thread: `count` of them.
struct RowWalk {
  std::int64_t first = 0;
  std::int32_t step = 1, count = 0;
  MILLRACE_HD std::int64_t row(std::int32_t i) const { return first + std::int64_t{step} * i; }
  MILLRACE_HD RowWalk reversed() const { return {row(count - 1), -step, count}; }
};

// Reads kAhead rows before it uses the first: loads have equal latency, so they should overlap. After the end the last row is
// read again and ignored.
template <class Column, class... Sums>
MILLRACE_HD void take_rows(const Column& column, const RowWalk& walk, Sums&... sums) {
  for (std::int32_t i = 0; i < walk.count; i += Column::kAhead) {
    typename Column::Packs packs[Column::kAhead];
    MILLRACE_UNROLL for (int a = 0; a < Column::kAhead; ++a) {
      packs[a] = column.read(walk.row(i + a < walk.count ? i + a : walk.count - 1));
    }
    MILLRACE_UNROLL for (int a = 0; a < Column::kAhead; ++a) {
      if (i + a < walk.count) column.use(walk.row(i + a), packs[a], sums...);
    }
  }
}

}  // namespace millrace::cuda
