#include "kernels/isa/depthwise.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

// One register. The compiler keeps arrays of them in registers if all their indices are constants, so loops over them are
// unrolled, and a pass covers half the lanes if a register is half as wide.
#ifdef __AVX512F__
constexpr int kWidth = 16, kTile = 14;
#else
constexpr int kWidth = 8, kTile = 7;
#endif
using Register = float __attribute__((vector_size(kWidth * sizeof(float)), may_alias));
constexpr int kLanes = 16, kMaxUnrolled = 64;

MILLRACE_INLINE Register get(const float* p) { return *reinterpret_cast<const Register*>(p); }
MILLRACE_INLINE void put(float* p, Register value) { *reinterpret_cast<Register*>(p) = value; }

// `Tile` neighbouring sums, for the lanes from `lane` on; `begin` as rows.start.
template <int Taps, int Stride, int Tile>
MILLRACE_INLINE void convolve_tile(const WindowRows& rows, std::int64_t begin, int lane, float* sums) {
  Register sum[Tile] = {};
  for (int r = 0; r < rows.count; ++r) {
    const float* const pixels = rows.rows[r].pixels + begin + lane;
    const float* const weights = rows.rows[r].weights + rows.first + lane;
    Register weight[Taps];
#pragma GCC unroll kMaxUnrolled
    for (int k = 0; k < Taps; ++k) weight[k] = get(weights + k * kLanes);
#pragma GCC unroll kMaxUnrolled
    for (int p = 0; p < Stride * (Tile - 1) + Taps; ++p) {
      const Register x = get(pixels + p * kLanes);
#pragma GCC unroll kMaxUnrolled
      for (int k = 0; k < Taps; ++k) {
        if (p >= k && (p - k) % Stride == 0 && (p - k) / Stride < Tile) sum[(p - k) / Stride] += x * weight[k];
      }
    }
  }
#pragma GCC unroll kMaxUnrolled
  for (int i = 0; i < Tile; ++i) put(sums + i * kLanes + lane, sum[i]);
}

template <int Taps, int Stride>
void convolve_row(const WindowRows& rows, std::int64_t count, float* sums) {
  std::int64_t i = 0;
  const auto tile = [&]<int Tile>() {
    for (int lane = 0; lane < kLanes; lane += kWidth) {
      convolve_tile<Taps, Stride, Tile>(rows, rows.start + Stride * i * kLanes, lane, sums + i * kLanes);
    }
    i += Tile;
  };
  while (count - i >= kTile) tile.template operator()<kTile>();
  while (count - i > 4) tile.template operator()<7>();
  if (count > i) tile.template operator()<4>();
}

// Sums of few neighbours are computed in several parts, because an addition waits for the one before.
template <int Taps>
constexpr int kParts = Taps == 3                   ? 3
                       : kWidth == 16 || Taps == 5 ? 2
                                                   : 1;
template <int Taps>
constexpr int kGradients = kWidth == 16 || Taps == 7 ? 7 : 4;  // pixels whose gradients are in registers

template <int Taps, int Stride, int Tile>
MILLRACE_INLINE void correlate_tile(const float* pixels, const float* gradient, Register (&sum)[Taps * kParts<Taps>]) {
  Register d[Tile];
#pragma GCC unroll kMaxUnrolled
  for (int i = 0; i < Tile; ++i) d[i] = get(gradient + i * kLanes);
#pragma GCC unroll kMaxUnrolled
  for (int p = 0; p < Stride * (Tile - 1) + Taps; ++p) {
    const Register x = get(pixels + p * kLanes);
#pragma GCC unroll kMaxUnrolled
    for (int k = 0; k < Taps; ++k) {
      const int i = (p - k) / Stride;
      if (p >= k && (p - k) % Stride == 0 && i < Tile) sum[k + Taps * (i % kParts<Taps>)] += x * d[i];
    }
  }
}

template <int Taps, int Stride>
void correlate_row(const float* pixels, const float* gradient, std::int64_t count, float* sums) {
  constexpr int kTileHere = kGradients<Taps>;
  for (int lane = 0; lane < kLanes; lane += kWidth) {
    Register sum[Taps * kParts<Taps>] = {};
    std::int64_t i = 0;
    for (; count - i >= kTileHere; i += kTileHere) {
      correlate_tile<Taps, Stride, kTileHere>(pixels + Stride * i * kLanes + lane, gradient + i * kLanes + lane, sum);
    }
    for (; i < count; ++i) {
      correlate_tile<Taps, Stride, 1>(pixels + Stride * i * kLanes + lane, gradient + i * kLanes + lane, sum);
    }
#pragma GCC unroll kMaxUnrolled
    for (int k = 0; k < Taps; ++k) {
      Register all = sum[k];
#pragma GCC unroll kMaxUnrolled
      for (int part = 1; part < kParts<Taps>; ++part) all += sum[k + Taps * part];
      put(sums + k * kLanes + lane, get(sums + k * kLanes + lane) + all);
    }
  }
}

}  // namespace

RowKernel* row_kernel(std::int64_t taps, std::int64_t stride) {
  const bool plain = stride == 1;
  switch (taps) {
    case 1: return convolve_row<1, 1>;
    case 2: return convolve_row<2, 1>;
    case 3: return plain ? convolve_row<3, 1> : convolve_row<3, 2>;
    case 4: return convolve_row<4, 1>;
    case 5: return plain ? convolve_row<5, 1> : convolve_row<5, 2>;
    case 7: return plain ? convolve_row<7, 1> : convolve_row<7, 2>;
    default: return nullptr;
  }
}

CorrelateKernel* correlate_kernel(std::int64_t taps, std::int64_t stride) {
  const bool plain = stride == 1;
  switch (taps) {
    case 3: return plain ? correlate_row<3, 1> : correlate_row<3, 2>;
    case 5: return plain ? correlate_row<5, 1> : correlate_row<5, 2>;
    case 7: return plain ? correlate_row<7, 1> : correlate_row<7, 2>;
    default: return nullptr;
  }
}

}  // namespace millrace::cpu::MILLRACE_ISA
