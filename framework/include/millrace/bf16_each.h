// Loops over bf16 with the instructions that some processors have for rounding to it. The bits are those of from_float<Bf16>().
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "millrace/kernel.h"
#include "millrace/vectorised.h"

#if defined(MILLRACE_AVX512_BF16)
#include <immintrin.h>

namespace millrace::detail {

constexpr int kRoundedAtOnce = 32;

// The instruction takes denormal numbers for zeros: where there are any, the processor's own rounding is not used.
MILLRACE_AVX512_BF16 inline void round_some(const float* from, Bf16* to) {
  constexpr int kDenormal = 0x20;
  const __m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + 16);
  if (_kortestz_mask16_u8(_mm512_fpclass_ps_mask(low, kDenormal), _mm512_fpclass_ps_mask(high, kDenormal))) [[likely]] {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
    memcpy(to, &rounded, sizeof rounded);
  } else {
    for (int k = 0; k < kRoundedAtOnce; ++k) to[k] = from_float<Bf16>(from[k]);
  }
}

// out[i] = f(in[...][i])
template <class F, std::size_t... I>
MILLRACE_AVX512_BF16 void each_rounded(const F& f, const Bf16* const* in, Bf16* out, std::int64_t count,
                                       std::index_sequence<I...>) {
  const Bf16* const from[] = {in[I]..., nullptr};
  std::int64_t done = 0;
  for (; done + kRoundedAtOnce <= count; done += kRoundedAtOnce) {
    float values[kRoundedAtOnce];
    for (int k = 0; k < kRoundedAtOnce; ++k) values[k] = f(to_float(from[I][done + k])...);
    round_some(values, out + done);
  }
  for (; done < count; ++done) out[done] = from_float<Bf16>(f(to_float(from[I][done])...));
}

}  // namespace millrace::detail
#endif
