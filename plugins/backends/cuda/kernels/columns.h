// How maps are computed column by column, where all rows need the same few numbers of each channel.
//
// A column is what one thread knows of eight channels, read once for the many rows of them that it takes:
//
//   struct Column { using Element = ...;
//                   using Packs = ...;                                          // what a row needs of the maps, as it lies there
//                   static constexpr int kAhead = ..., kBlocks = ...;           // rows that are read together; blocks of threads
//                                                                               // that are to fit on a multiprocessor
//                   MILLRACE_HD Column(const Element& element, std::int64_t pack);  // must not outlive the element
//                   MILLRACE_HD Packs read(std::int64_t row) const;             // loads only
//                   MILLRACE_HD void use(std::int64_t row, const Packs& packs) const;
//                   // of Form::sums: use(row, packs, float (&sums)[kSums][8])
//                 };
//
// An element has several types of column where an activation or an option changes what a row does: with_column() chooses one on
// the host and calls use(ColumnType<Column>()), so that nothing is asked in each row.
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

// Rows of T to read together, of `rows` of bf16 that fit in registers.
template <class T>
constexpr int rows_ahead(int rows) {
  return rows * static_cast<int>(sizeof(Bf16)) / static_cast<int>(sizeof(T));
}

// Where the element's maps hold a pack of a row.
template <class Element>
MILLRACE_HD std::int64_t pack_at(const Element& element, std::int64_t row, std::int64_t pack) {
  return (row * element.packs + pack) * kPack;
}

// The rows first, first + step, ...: `count` of them, which one thread takes.
struct RowWalk {
  std::int64_t first = 0;
  std::int32_t step = 1, count = 0;
  MILLRACE_HD std::int64_t row(std::int32_t i) const { return first + std::int64_t{step} * i; }
  MILLRACE_HD RowWalk reversed() const { return {row(count - 1), -step, count}; }
};

// Reads kAhead rows before it uses the first of them: memory keeps each waiting equally long, so they had better wait together.
// After the end the last row is read again and not used.
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
