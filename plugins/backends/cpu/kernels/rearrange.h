// Passes that are rare or small, written for any layout: copies between channels, layouts and types.
// Threading: the OpenMP team of the caller; results do not depend on it.
#pragma once

#include <cstdint>

#include "kernels/map.h"

namespace millrace::cpu {

// to[:, to_channel ... + count) = from[:, from_channel ... + count): concatenation and its backward, change of layout, change of
// type. Whole blocks move 16 channels at a time where both offsets are multiples of 16. Padding channels of `to` are zeroed
// when the copy reaches to.channels. REQUIRES: equal n, height, width.
void copy_channels(const Map& from, std::int64_t from_channel, const Map& to, std::int64_t to_channel, std::int64_t count);
inline void copy(const Map& from, const Map& to) { copy_channels(from, 0, to, 0, to.channels); }

// The phases of a map: the pixels whose row leaves one remainder by `rows`, and whose column one by `columns`, as an image of
// their own. to.n = from.n * rows * columns, in this order; heights and widths are rounded up, and what is past the map is zero.
// REQUIRES: equal channels and types.
void to_phases(const Map& from, std::int64_t rows, std::int64_t columns, const Map& to);
void from_phases(const Map& from, std::int64_t rows, std::int64_t columns, const Map& to);

// Images of a map beside each other, as one wide image: to.n = from.n / images, rounded up. What is between them, after the last
// one or for images that are wanting is zero.
// REQUIRES: equal channels, heights, types and layouts; period >= from.width; to.width >= (images - 1) * period + from.width.
struct SideBySide {
  std::int64_t images = 1;  // in a row
  std::int64_t period = 0;  // columns from one to the next
};
void to_side_by_side(const Map& from, const SideBySide& how, const Map& to);
void from_side_by_side(const Map& from, const SideBySide& how, const Map& to);

// Between a map and plain (N, C, H, W) memory of the same type, as flatten needs it.
void to_plain(const Map& from, void* to);
void from_plain(const void* from, const Map& to);

}  // namespace millrace::cpu
