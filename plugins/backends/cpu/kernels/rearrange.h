// Rare or small passes, for any layout: copies between channels, layouts and types, and to plain (N, C, H, W) memory.
// Threading: the caller's OpenMP team; results do not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/map.h"

namespace millrace::cpu {

// to[:, to_channel ... + count) = from[:, from_channel ... + count): concatenation and its backward, change of layout, change of
// type. Fastest if both offsets are multiples of 16. Padding channels of `to` are zeroed if the
// copy reaches to.channels. REQUIRES: equal n, height, width.
void copy_channels(const Map& from, std::int64_t from_channel, const Map& to, std::int64_t to_channel, std::int64_t count);
inline void copy(const Map& from, const Map& to) { copy_channels(from, 0, to, 0, to.channels); }

// The phases of a map: each is an image of the pixels with equal row modulo `rows` and equal column modulo `columns`. to.n =
// from.n * rows * columns, in this order; heights and widths are rounded up, and pixels past the map are zero. REQUIRES: equal
// channels and types.
void to_phases(const Map& from, std::int64_t rows, std::int64_t columns, const Map& to);
void from_phases(const Map& from, std::int64_t rows, std::int64_t columns, const Map& to);

// Several images of a map side by side, as one wide image: to.n = from.n / images, rounded up. Gaps, the rest of a row, and
// missing images are zero.
// REQUIRES: equal channels, heights, types and layouts; period >= from.width; to.width >= (images - 1) * period + from.width.
struct SideBySide {
  std::int64_t images = 1;  // per row
  std::int64_t period = 0;  // distance in columns
};
void to_side_by_side(const Map& from, const SideBySide& how, const Map& to);
void from_side_by_side(const Map& from, const SideBySide& how, const Map& to);

// In the map's type, for flatten.
void to_plain(const Map& from, void* to);
void from_plain(const void* from, const Map& to);

void read_map(const Map& from, float* to);
std::vector<float> values_of(const Map& map);

// to += weight * from; the rows of `from` are read in reverse if it is mirrored. `to` is float32 with channels last.
void add_view(const Map& from, float weight, bool mirrored, const Map& to);

void zero(const Map& map);

}  // namespace millrace::cpu
