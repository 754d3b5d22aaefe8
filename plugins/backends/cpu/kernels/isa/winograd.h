// Shared by winograd.cpp and winograd_weights.cpp: tiles, and their transforms in registers.
#pragma once

#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {

constexpr std::int64_t kPlaces = 16;  // in a tile

// ---- Products. An instruction multiplies kTogether neighbours of the summed dimension in each lane of a register, of which
// kRegisters hold a block of 16 channels. ----
#ifdef __AVX512F__
constexpr int kRegisters = 1;
using Sum = v16;
#else
constexpr int kRegisters = 2;
using Sum = v8;
#endif
constexpr std::int64_t kWidth = Map::kLanes / kRegisters;

#ifdef __AVX512BF16__
using Value = std::uint16_t;  // bf16
using Lanes = __m512i;
constexpr std::int64_t kTogether = 2;

MILLRACE_INLINE v16 multiply_add(v16 sum, Lanes a, Lanes b) {
  return reinterpret_cast<v16>(
      _mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b)));
}
MILLRACE_INLINE Lanes load_lanes(const Value* p) { return _mm512_loadu_si512(p); }
MILLRACE_INLINE Lanes in_every_lane(const Value* p) {
  std::int32_t both;
  __builtin_memcpy(&both, p, sizeof both);
  return _mm512_set1_epi32(both);
}
MILLRACE_INLINE void store_together(Value* to, const v16 (&values)[2]) {  // one in the low and one in the high half of every lane
  alignas(64) static constexpr std::uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                           8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both =
      reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(values[1]), reinterpret_cast<__m512>(values[0])));
  _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi16(~__mmask32{}, _mm512_load_si512(kOrder), both));
}
#else
using Value = float;
using Lanes = Sum;
using LooseLanes = float __attribute__((vector_size(sizeof(Lanes)), aligned(4), may_alias));
constexpr std::int64_t kTogether = 1;

MILLRACE_INLINE Sum multiply_add(Sum sum, Lanes a, Lanes b) { return sum + a * b; }
MILLRACE_INLINE Lanes load_lanes(const Value* p) { return *reinterpret_cast<const LooseLanes*>(p); }
MILLRACE_INLINE Lanes in_every_lane(const Value* p) { return *p - Lanes{}; }
MILLRACE_INLINE void store_together(Value* to, const v16 (&values)[1]) { store(to, values[0]); }
#endif
using LooseSum = float __attribute__((vector_size(sizeof(Sum)), aligned(4), may_alias));
MILLRACE_INLINE Sum load_sum(const float* p) { return *reinterpret_cast<const LooseSum*>(p); }
MILLRACE_INLINE void store_sum(float* p, Sum value) { *reinterpret_cast<LooseSum*>(p) = value; }
// Number of floats that hold `values`.
constexpr std::int64_t floats_of(std::int64_t values) {
  return values * std::int64_t{sizeof(Value)} / std::int64_t{sizeof(float)};
}

// ---- Transforms of sixteen channels at once ----
// B' times a column of pixels, or likewise a row.
MILLRACE_INLINE void transform_four(const v16 (&d)[4], v16 (&v)[4]) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[1] - d[3];
}
MILLRACE_INLINE void transform_sums(const v16 (&m)[4][4], v16 (&y)[2][2]) {
  v16 half[2][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    half[0][i] = m[0][i] + m[1][i] + m[2][i];
    half[1][i] = m[1][i] - m[2][i] - m[3][i];
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    y[i][0] = half[i][0] + half[i][1] + half[i][2];
    y[i][1] = half[i][1] - half[i][2] - half[i][3];
  }
}
MILLRACE_INLINE void transform_gradient(const v16 (&e)[2][2], v16 (&w)[4][4]) {
  v16 half[4][2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    half[0][i] = e[0][i];
    half[1][i] = e[0][i] + e[1][i];
    half[2][i] = e[0][i] - e[1][i];
    half[3][i] = -e[1][i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    w[i][0] = half[i][0];
    w[i][1] = half[i][0] + half[i][1];
    w[i][2] = half[i][0] - half[i][1];
    w[i][3] = -half[i][1];
  }
}
MILLRACE_INLINE void transform_window(const v16 (&g)[3][3], v16 (&u)[4][4]) {
  v16 half[4][3];
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    const v16 outer = g[0][i] + g[2][i];
    half[0][i] = g[0][i];
    half[1][i] = 0.5F * (outer + g[1][i]);
    half[2][i] = 0.5F * (outer - g[1][i]);
    half[3][i] = g[2][i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const v16 outer = half[i][0] + half[i][2];
    u[i][0] = half[i][0];
    u[i][1] = 0.5F * (outer + half[i][1]);
    u[i][2] = 0.5F * (outer - half[i][1]);
    u[i][3] = half[i][2];
  }
}
MILLRACE_INLINE void transform_window_back(const v16 (&u)[4][4], v16 (&g)[3][3]) {
  v16 half[3][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const v16 sum = 0.5F * (u[1][i] + u[2][i]);
    half[0][i] = u[0][i] + sum;
    half[1][i] = 0.5F * (u[1][i] - u[2][i]);
    half[2][i] = sum + u[3][i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    const v16 sum = 0.5F * (half[i][1] + half[i][2]);
    g[i][0] = half[i][0] + sum;
    g[i][1] = 0.5F * (half[i][1] - half[i][2]);
    g[i][2] = sum + half[i][3];
  }
}

// ---- Tiles ----
struct Place {
  std::int64_t n, row, column;  // in tiles
};
// The tiles of a map, numbered from left to right, row by row, sample by sample.
struct Tiles {
  std::int64_t columns, rows, all;
  explicit Tiles(const Map& y) : columns((y.width + 1) / 2), rows((y.height + 1) / 2), all(y.n * columns * rows) {}
  // Writes up to `most` of them from `first` on; returns their number.
  std::int64_t places(std::int64_t first, std::int64_t most, Place* to) const {
    const std::int64_t count = all - first < most ? all - first : most;
    for (std::int64_t t = first; t < first + count; ++t) *to++ = {t / (columns * rows), t / columns % rows, t % columns};
    return count;
  }
};

// A column of an input tile, transformed.
MILLRACE_INLINE void load_column(const Map& map, const Value* plane, std::int64_t row, std::int64_t column, v16 (&v)[4]) {
  v16 d[4];
  const Value* const first = plane + (row * map.width + column) * map.stride_pixel;
  const std::int64_t down = map.width * map.stride_pixel;
  const bool exists = column >= 0 && column < map.width;
  if (exists && row >= 0 && row + 4 <= map.height) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) d[r] = load(first + r * down);
  } else {
    for (int r = 0; r < 4; ++r) d[r] = exists && row + r >= 0 && row + r < map.height ? load(first + r * down) : v16{};
  }
  transform_four(d, v);
}

// The transformed input tiles at `places`, for one block of 16 channels: calls made(t, v) for each. Neighbours in a row share two
// of their four columns.
template <class Made>
MILLRACE_INLINE void transform_tiles(const WinogradShape& shape, const Map& x, std::int64_t block, const Place* places,
                                     std::int64_t count, Made&& made) {
  v16 columns[4][4] = {};
  for (std::int64_t t = 0; t < count; ++t) {
    const Place place = places[t];
    const std::int64_t row = 2 * place.row - shape.top, column = 2 * place.column - shape.left;
    const Value* const plane = at<Value>(x, place.n, block, 0);
    if (t == 0 || place.column == 0) {
      for (int c = 0; c < 2; ++c) load_column(x, plane, row, column + c, columns[c]);
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) columns[0][r] = columns[2][r], columns[1][r] = columns[3][r];
    }
    for (int c = 2; c < 4; ++c) load_column(x, plane, row, column + c, columns[c]);
    v16 v[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) transform_four({columns[0][r], columns[1][r], columns[2][r], columns[3][r]}, v[r]);
    made(t, v);
  }
}

}  // namespace millrace::cpu::MILLRACE_ISA
