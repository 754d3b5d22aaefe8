#if defined(__x86_64__)

#include <immintrin.h>

#include "data/resample_kernels.h"

#define TARGET [[gnu::target("avx2")]]

namespace millrace {

namespace {

// A weight is high * 2^11 + low, both 16-bit. The instruction multiplies two of them and adds the products: those of the even
// taps and those of the odd ones.
constexpr int kLowBits = 11;

void pack(const std::int32_t* four, std::int32_t* packed) {
  const auto high = [&](int tap) { return static_cast<std::uint32_t>(four[tap] >> kLowBits) & 0xffff; };
  const auto low = [&](int tap) { return static_cast<std::uint32_t>(four[tap]) & ((1U << kLowBits) - 1); };
  packed[0] = static_cast<std::int32_t>(high(0) | high(2) << 16);
  packed[1] = static_cast<std::int32_t>(high(1) | high(3) << 16);
  packed[2] = static_cast<std::int32_t>(low(0) | low(2) << 16);
  packed[3] = static_cast<std::int32_t>(low(1) | low(3) << 16);
}

struct Sums {
  __m256i high, low;

  TARGET [[gnu::always_inline]] inline void start() {
    high = _mm256_setzero_si256();
    low = _mm256_set1_epi32(kHalfPixel);
  }
  TARGET [[gnu::always_inline]] static inline __m256i product(__m256i pair, std::int32_t weights) {
    return _mm256_madd_epi16(pair, _mm256_set1_epi32(weights));
  }
  TARGET [[gnu::always_inline]] inline void add(__m256i bytes, const std::int32_t* weights) {
    const __m256i even = _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), odd = _mm256_srli_epi16(bytes, 8);
    high = _mm256_add_epi32(high, _mm256_add_epi32(product(even, weights[0]), product(odd, weights[1])));
    low = _mm256_add_epi32(low, _mm256_add_epi32(product(even, weights[2]), product(odd, weights[3])));
  }
  TARGET [[gnu::always_inline]] static inline __m256i of(__m256i bytes, const std::int32_t* weights) {
    Sums sums;
    sums.start();
    sums.add(bytes, weights);
    return sums.result();
  }
  TARGET [[gnu::always_inline]] inline __m256i result() const {
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low), kWeightBits);
  }
};

#include "data/resample_simd.inc"

}  // namespace

const ResampleKernels kAvx2Kernels = {"avx2", &pack, &narrow, &flatten};

}  // namespace millrace

#endif
