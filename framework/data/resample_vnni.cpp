#if defined(__x86_64__)

#include <immintrin.h>

#include "data/resample_kernels.h"

#define TARGET [[gnu::target("avx2,avx512f,avx512vl,avx512vnni")]]

namespace millrace {

namespace {

// A weight is (high * 2^8 + middle) * 2^8 + low, all signed 8-bit. The instruction multiplies four of them by four pixels and
// adds the products. (512-bit vectors would not be faster: some processors lower their clock for them.)
void pack(const std::int32_t* four, std::int32_t* packed) {
  std::uint32_t parts[3] = {};
  for (int tap = 0; tap < 4; ++tap) {
    std::int32_t rest = four[tap];
    for (int i = 2; i >= 0; --i) {
      const auto digit = static_cast<std::int8_t>(rest);
      parts[i] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(digit)) << (8 * tap);
      rest = (rest - digit) / 256;
    }
  }
  for (int i = 0; i < 3; ++i) packed[i] = static_cast<std::int32_t>(parts[i]);
  packed[3] = 0;
}

struct Sums {
  __m256i high, middle, low;

  TARGET [[gnu::always_inline]] inline void start() {
    high = middle = _mm256_setzero_si256();
    low = _mm256_set1_epi32(kHalfPixel);
  }
  TARGET [[gnu::always_inline]] inline void add(__m256i bytes, const std::int32_t* weights) {
    high = _mm256_dpbusd_epi32(high, bytes, _mm256_set1_epi32(weights[0]));
    middle = _mm256_dpbusd_epi32(middle, bytes, _mm256_set1_epi32(weights[1]));
    low = _mm256_dpbusd_epi32(low, bytes, _mm256_set1_epi32(weights[2]));
  }
  // For one group of taps: a single accumulator.
  TARGET [[gnu::always_inline]] static inline __m256i of(__m256i bytes, const std::int32_t* weights) {
    __m256i sum = _mm256_dpbusd_epi32(_mm256_set1_epi32(kHalfPixel >> 16), bytes, _mm256_set1_epi32(weights[0]));
    sum = _mm256_dpbusd_epi32(_mm256_slli_epi32(sum, 8), bytes, _mm256_set1_epi32(weights[1]));
    sum = _mm256_dpbusd_epi32(_mm256_slli_epi32(sum, 8), bytes, _mm256_set1_epi32(weights[2]));
    return _mm256_srai_epi32(sum, kWeightBits);
  }
  TARGET [[gnu::always_inline]] inline __m256i result() const {
    const __m256i upper = _mm256_add_epi32(_mm256_slli_epi32(high, 8), middle);
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(upper, 8), low), kWeightBits);
  }
};

#include "data/resample_simd.inc"

}  // namespace

const ResampleKernels kVnniKernels = {"vnni", &pack, &narrow, &flatten};

}  // namespace millrace

#endif
