// Loops over bf16 that use some processors' rounding instructions. The bits equal those of from_float<Bf16>().
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "millrace/kernels/kernel.h"
#include "millrace/kernels/vectorised.h"

#if defined(MILLRACE_AVX512_BF16)
#include <immintrin.h>

namespace millrace::detail {

// Two neighbouring elements. A shift converts the lower one to float, a mask the higher one, which is cheaper than widening a
// vector.
using Bf16Pair = std::uint32_t __attribute__((may_alias, aligned(2)));
constexpr int kPairsAtOnce = 16;

MILLRACE_KERNEL float lower_of(Bf16Pair pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair << 16)); }
MILLRACE_KERNEL float higher_of(Bf16Pair pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair & 0xffff0000U)); }

// Rounds the values of pairs. The instruction flushes denormal numbers to zero, so it is not used if there are any.
MILLRACE_AVX512_BF16 inline void round_pairs(const float* lower, const float* higher, Bf16* to) {
  constexpr int kDenormal = 0x20;
  alignas(64) static constexpr std::uint16_t kOrder[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                         8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512 low = _mm512_loadu_ps(lower), high = _mm512_loadu_ps(higher);
  if (_kortestz_mask16_u8(_mm512_fpclass_ps_mask(low, kDenormal), _mm512_fpclass_ps_mask(high, kDenormal))) [[likely]] {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);  // all lower values, then all higher ones
    __m512i words;
    memcpy(&words, &rounded, sizeof words);
    _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi16(~__mmask32{}, _mm512_load_si512(kOrder), words));
  } else {
    for (int k = 0; k < kPairsAtOnce; ++k) {
      to[2 * k] = from_float<Bf16>(lower[k]);
      to[2 * k + 1] = from_float<Bf16>(higher[k]);
    }
  }
}

// out[i] = f(in[...][i])
template <class F, std::size_t... I>
MILLRACE_AVX512_BF16 void each_rounded(const F& kernel, const Bf16* const* in, Bf16* out, std::int64_t count,
                                       std::index_sequence<I...>) {
  const F f = kernel;
  const Bf16* const from[] = {in[I]..., nullptr};
  std::int64_t done = 0;
  for (; done + 2 * kPairsAtOnce <= count; done += 2 * kPairsAtOnce) {
    const Bf16Pair* const pairs[] = {reinterpret_cast<const Bf16Pair*>(from[I] + done)..., nullptr};
    float lower[kPairsAtOnce], higher[kPairsAtOnce];
#pragma GCC unroll 1  // otherwise unrolling prevents vectorisation
    for (int k = 0; k < kPairsAtOnce; ++k) {
      lower[k] = f(lower_of(pairs[I][k])...);
      higher[k] = f(higher_of(pairs[I][k])...);
    }
    round_pairs(lower, higher, out + done);
  }
  for (; done < count; ++done) out[done] = from_float<Bf16>(f(to_float(from[I][done])...));
}

}  // namespace millrace::detail
#endif
