// Sixteen float lanes: the vector type of all kernels. AVX-512 holds it in one register, AVX2 in two.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/isa/isa.h"

#define MILLRACE_INLINE inline __attribute__((always_inline))

namespace millrace::cpu::MILLRACE_ISA {

using v16 = float __attribute__((vector_size(64)));
using i16 = std::int32_t __attribute__((vector_size(64)));
using u16 = std::uint32_t __attribute__((vector_size(64)));
using d8 = double __attribute__((vector_size(64), may_alias));
using v8 = float __attribute__((vector_size(32)));
using h16 = std::uint16_t __attribute__((vector_size(32)));
using b16 = std::uint8_t __attribute__((vector_size(16)));
using loose_v16 = float __attribute__((vector_size(64), aligned(4), may_alias));
using loose_i16 = std::int32_t __attribute__((vector_size(64), aligned(4), may_alias));
using loose_h16 = std::uint16_t __attribute__((vector_size(32), aligned(2), may_alias));
using loose_b16 = std::uint8_t __attribute__((vector_size(16), aligned(1), may_alias));

MILLRACE_INLINE v16 splat(float value) { return value - v16{}; }

// ---- Whole vectors ----
MILLRACE_INLINE v16 load(const float* p) { return *reinterpret_cast<const loose_v16*>(p); }
MILLRACE_INLINE void store(float* p, v16 value) { *reinterpret_cast<loose_v16*>(p) = value; }

// Conversions between widths with dedicated instructions: __builtin_convertvector of GCC 12 takes vectors apart. Full masks avoid
// GCC 12's warning about an uninitialised operand in the plain forms.
union Halves {
  v16 whole;
  __m256 half[2];
  i16 integers;
  __m256i integer_half[2];
};
MILLRACE_INLINE v16 widen(h16 half) {
#ifdef __AVX512F__
  return reinterpret_cast<v16>(
      _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(half)), 16));
#else
  const auto all = reinterpret_cast<__m256i>(half);
  Halves wide{};
  wide.integer_half[0] = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(all)), 16);
  wide.integer_half[1] = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(all, 1)), 16);
  return wide.whole;
#endif
}
MILLRACE_INLINE h16 low_halves(u16 words) {  // REQUIRES: words < 65536
#ifdef __AVX512F__
  return reinterpret_cast<h16>(_mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(words)));
#else
  const Halves wide{reinterpret_cast<v16>(words)};
  const __m256i mixed = _mm256_packus_epi32(wide.integer_half[0], wide.integer_half[1]);
  return reinterpret_cast<h16>(_mm256_permute4x64_epi64(mixed, 0xd8));
#endif
}
MILLRACE_INLINE h16 narrow(v16 value) {  // to nearest, ties to even, NaN stays NaN: same as to_bf16() in tensor.h
#ifdef __AVX512BF16__
  return reinterpret_cast<h16>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(value)));
#else
  const u16 bits = reinterpret_cast<u16>(value);
  const u16 rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return low_halves(value == value ? rounded : (bits >> 16) | 0x40U);
#endif
}
MILLRACE_INLINE b16 low_bytes(i16 words) {  // REQUIRES: 0 <= words < 256
#ifdef __AVX512F__
  return reinterpret_cast<b16>(_mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(words)));
#else
  return __builtin_convertvector(words, b16);
#endif
}
MILLRACE_INLINE i16 widen(b16 bytes) {
#ifdef __AVX512F__
  return reinterpret_cast<i16>(_mm512_maskz_cvtepu8_epi32(0xffff, reinterpret_cast<__m128i>(bytes)));
#else
  return __builtin_convertvector(bytes, i16);
#endif
}
MILLRACE_INLINE v16 load(const std::uint16_t* p) { return widen(*reinterpret_cast<const loose_h16*>(p)); }
MILLRACE_INLINE void store(std::uint16_t* p, v16 value) { *reinterpret_cast<loose_h16*>(p) = narrow(value); }

// ---- The first `lanes` of a vector; the others read as zero and are not written ----
MILLRACE_INLINE i16 lanes_below(int lanes) { return i16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} < lanes; }
MILLRACE_INLINE v16 keep(v16 value, i16 mask) { return reinterpret_cast<v16>(reinterpret_cast<i16>(value) & mask); }
#ifdef __AVX512BW__
MILLRACE_INLINE __mmask16 mask_of(int lanes) { return static_cast<__mmask16>((1U << lanes) - 1U); }
MILLRACE_INLINE v16 load_some(const float* p, int lanes) {
  return reinterpret_cast<v16>(_mm512_maskz_loadu_ps(mask_of(lanes), p));
}
MILLRACE_INLINE void store_some(float* p, v16 value, int lanes) {
  _mm512_mask_storeu_ps(p, mask_of(lanes), reinterpret_cast<__m512>(value));
}
MILLRACE_INLINE v16 load_some(const std::uint16_t* p, int lanes) {
  return widen(reinterpret_cast<h16>(_mm256_maskz_loadu_epi16(mask_of(lanes), p)));
}
MILLRACE_INLINE void store_some(std::uint16_t* p, v16 value, int lanes) {
  _mm256_mask_storeu_epi16(p, mask_of(lanes), reinterpret_cast<__m256i>(narrow(value)));
}
#else
MILLRACE_INLINE v16 load_some(const float* p, int lanes) {
  Halves mask{}, value{};
  mask.integers = lanes_below(lanes);
  for (int i = 0; i < 2; ++i) value.half[i] = _mm256_maskload_ps(p + 8 * i, mask.integer_half[i]);
  return value.whole;
}
MILLRACE_INLINE void store_some(float* p, v16 value, int lanes) {
  Halves mask{}, from{value};
  mask.integers = lanes_below(lanes);
  for (int i = 0; i < 2; ++i) _mm256_maskstore_ps(p + 8 * i, mask.integer_half[i], from.half[i]);
}
MILLRACE_INLINE v16 load_some(const std::uint16_t* p, int lanes) {
  h16 half{};
  for (int i = 0; i < lanes; ++i) half[i] = p[i];
  return widen(half);
}
MILLRACE_INLINE void store_some(std::uint16_t* p, v16 value, int lanes) {
  const h16 half = narrow(value);
  for (int i = 0; i < lanes; ++i) p[i] = half[i];
}
#endif

// Access to a run: whole blocks, or the last block of a channel count that is not a multiple of 16.
struct Whole {
  template <class T>
  MILLRACE_INLINE v16 get(const T* p) const {
    return load(p);
  }
  template <class T>
  MILLRACE_INLINE void put(T* p, v16 value) const {
    store(p, value);
  }
};
struct Part {
  int lanes;
  bool padded;  // the target has 16 lanes in memory; the unused ones become zero
  i16 mask = lanes_below(lanes);
  template <class T>
  MILLRACE_INLINE v16 get(const T* p) const {
    return load_some(p, lanes);
  }
  template <class T>
  MILLRACE_INLINE void put(T* p, v16 value) const {
    if (!padded) return store_some(p, value, lanes);
    store(p, keep(value, mask));
  }
};

// table[index] by lane; index in 0 ... 15.
MILLRACE_INLINE v16 lookup(v16 table, i16 index) {
#ifdef __AVX512F__
  return reinterpret_cast<v16>(
      _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(index), reinterpret_cast<__m512>(table)));
#else
  Halves from{table}, at{}, to{};
  at.integers = index;
  for (int i = 0; i < 2; ++i) {
    const __m256 low = _mm256_permutevar8x32_ps(from.half[0], at.integer_half[i]);
    const __m256 high = _mm256_permutevar8x32_ps(from.half[1], at.integer_half[i]);
    to.half[i] = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(at.integer_half[i], 28)));
  }
  return to.whole;
#endif
}

// An odd function of x from its table.
struct Piecewise {
  v16 coefficient[PiecewiseTable::kCoefficients];
  MILLRACE_INLINE explicit Piecewise(const PiecewiseTable& table) {
    for (int i = 0; i < PiecewiseTable::kCoefficients; ++i) coefficient[i] = load(table.coefficient[i]);
  }
  MILLRACE_INLINE v16 operator()(v16 x) const {
    constexpr float kWidth = PiecewiseTable::kWidth, kLimit = PiecewiseTable::kLimit;
    const u16 sign = reinterpret_cast<u16>(x) & 0x80000000U;
    const v16 size = reinterpret_cast<v16>(reinterpret_cast<u16>(x) & 0x7fffffffU);
    const v16 clipped = size < kLimit ? size : splat(kLimit);  // also NaN
    const i16 index = __builtin_convertvector(clipped * (1 / kWidth), i16);
    const v16 u = (clipped - kWidth / 2) - __builtin_convertvector(index, v16) * kWidth;
    v16 sum = lookup(coefficient[PiecewiseTable::kCoefficients - 1], index);
    for (int i = PiecewiseTable::kCoefficients - 2; i >= 0; --i) sum = sum * u + lookup(coefficient[i], index);
    return reinterpret_cast<v16>(reinterpret_cast<u16>(sum) | sign);
  }
};

// Activations: value(x), and slope(x) = derivative at x. Created before a loop, so that tables stay in registers.
struct Identity {
  MILLRACE_INLINE v16 value(v16 x) const { return x; }
  MILLRACE_INLINE v16 slope(v16) const { return splat(1); }
};
struct Relu {
  MILLRACE_INLINE v16 value(v16 x) const { return x < 0 ? v16{} : x; }  // NaN stays NaN
  MILLRACE_INLINE v16 slope(v16 x) const { return x > 0 ? splat(1) : v16{}; }
};
struct GeluValue {
  Piecewise half{gelu_tables().value};
  MILLRACE_INLINE v16 value(v16 x) const { return x * 0.5F + x * half(x); }
};
struct GeluSlope {
  Piecewise half{gelu_tables().slope};
  MILLRACE_INLINE v16 slope(v16 x) const { return 0.5F + half(x); }
};

}  // namespace millrace::cpu::MILLRACE_ISA
