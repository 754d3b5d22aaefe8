// How maps are computed column by column, where all rows need the same few numbers of each channel.
//
// A column is what one thread knows of eight channels, read once for the many rows of them that it takes:
//
//   struct Column { using Element = ...;
//                   using Packs = ...;                                          // what a row needs of the maps, as it lies there
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

// Where the element's maps hold a pack of a row.
template <class Element>
MILLRACE_HD std::int64_t pack_at(const Element& element, std::int64_t row, std::int64_t pack) {
  return (row * element.packs + pack) * kPack;
}

// The rows first, first + step, ...: `count` of them.
struct RowWalk {
  std::int64_t first = 0, step = 1, count = 0;
  MILLRACE_HD RowWalk reversed() const { return {first + (count - 1) * step, -step, count}; }
};

template <class Column, class... Sums>
MILLRACE_HD void take_rows(const Column& column, const RowWalk& walk, Sums&... sums) {
  for (std::int64_t i = 0; i < walk.count; ++i) {
    const std::int64_t row = walk.first + i * walk.step;
    column.use(row, column.read(row), sums...);
  }
}

}  // namespace millrace::cuda
