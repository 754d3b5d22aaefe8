// Functions of float32 for kernels. On a processor they vectorise with the loop around them; on a GPU they are CUDA's own. Errors
// are at most 2 units in the last place unless noted otherwise. NaN stays NaN.
//
// The polynomials are Cephes' (Moshier, 1992: expf, logf, tanhf).
#pragma once

#include <cstdint>
#include <cstring>

#include "millrace/kernels/kernel.h"

namespace millrace::math {

MILLRACE_KERNEL float abs(float x) { return x < 0 ? -x : x; }
MILLRACE_KERNEL float min(float a, float b) { return b < a ? b : a; }
MILLRACE_KERNEL float max(float a, float b) { return b > a ? b : a; }
// The order that poolings use: NaN is larger than everything.
MILLRACE_KERNEL bool is_larger(float a, float than) { return (a > than) | (a != a); }
MILLRACE_KERNEL float sign(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : x; }

MILLRACE_KERNEL float sqrt(float x) {
#if defined(__CUDA_ARCH__)
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

namespace detail {

MILLRACE_KERNEL float power_of_two(std::int32_t exponent) {  // REQUIRES: -126 <= exponent <= 127
  const std::int32_t bits = (exponent + 127) << 23;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace detail

MILLRACE_KERNEL float exp(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float most = 88.7228317F, least = -87.3365402F;
  const float inside = x > most ? most : x < least ? least : x;
  const float k = (inside * 1.44269504F + kRound) - kRound;
  float r = inside - k * 0.693359375F;
  r = r + k * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const auto whole = static_cast<std::int32_t>(k);
  const std::int32_t half = whole >> 1;  // two factors, since 2^128 overflows float32
  const float result = (p * r * r + r + 1.0F) * detail::power_of_two(half) * detail::power_of_two(whole - half);
  const float far = x > most ? __builtin_inff() : 0.0F;
  return x > most || x < least ? far : x != x ? x : result;
#endif
}

MILLRACE_KERNEL float log(float x) {
#if defined(__CUDA_ARCH__)
  return logf(x);
#else
  const bool tiny = x < 1.17549435e-38F;
  const float scaled = tiny ? x * 8388608.0F : x;  // denormal numbers
  std::int32_t bits;
  memcpy(&bits, &scaled, sizeof bits);
  std::int32_t exponent = ((bits >> 23) & 0xff) - 126 - (tiny ? 23 : 0);
  bits = (bits & 0x007fffff) | 0x3f000000;  // in [0.5, 1)
  float m;
  memcpy(&m, &bits, sizeof m);
  const bool low = m < 0.707106781F;
  exponent = low ? exponent - 1 : exponent;
  m = (low ? m + m : m) - 1.0F;
  const float z = m * m, e = static_cast<float>(exponent);
  float p = 7.0376836292e-2F;
  p = p * m - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  float y = p * m * z - 2.12194440e-4F * e - 0.5F * z;
  y = m + y + 0.693359375F * e;
  const float edge = x == 0 ? -__builtin_inff() : x < 0 ? __builtin_nanf("") : x;  // 0, negative, infinite or NaN
  return x > 0 && x < __builtin_inff() ? y : edge;
#endif
}

MILLRACE_KERNEL float log1p(float x) {
#if defined(__CUDA_ARCH__)
  return log1pf(x);
#else
  const float u = 1.0F + x;  // the rounding error of x returns as a factor (Kahan)
  const float corrected = log(u) * (x / (u - 1.0F));
  return u == 1.0F ? x : u < __builtin_inff() ? corrected : u;
#endif
}

MILLRACE_KERNEL float tanh(float x) {
#if defined(__CUDA_ARCH__)
  return tanhf(x);
#else
  const float a = abs(x), z = x * x;
  float p = -5.70498872745e-3F;
  p = p * z + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const float near = p * z * x + x;
  const float far = 1.0F - 2.0F / (exp(2.0F * a) + 1.0F);
  return a < 0.625F ? near : x < 0 ? -far : x != x ? x : far;
#endif
}

// 1 / (1 + exp(-x))
MILLRACE_KERNEL float sigmoid(float x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace millrace::math
