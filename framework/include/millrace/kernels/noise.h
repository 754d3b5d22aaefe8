// Gaussian noise that devices add to an image as they read it (AugmentationRecord::noise): the kernel's half, identical on every
// device.
#pragma once

#include <cstdint>

#include "millrace/kernels/kernel.h"
#include "millrace/kernels/kernel_math.h"

namespace millrace {

// Mixes a 32-bit word: every bit of the result depends on every bit of the input.
MILLRACE_KERNEL std::uint32_t mixed_bits(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  return x ^ (x >> 16);
}

// The normal deviate of `place` for `seed`: mean 0, standard deviation 1, at most 5.2 in magnitude. Computes sqrt(2) times the
// inverse of erf in single precision, after Giles, "Approximating the erfinv function" (GPU Computing Gems, Jade Edition, 2011).
MILLRACE_KERNEL float normal_deviate(std::uint32_t seed, std::uint32_t place) {
  const std::uint32_t bits = mixed_bits(mixed_bits(seed) ^ (place * 0x9E3779B9U)) >> 9;  // 23 bits
  const float x = static_cast<float>(2 * bits + 1) * 0x1p-23F - 1;                       // in (-1, 1), exact
  float w = -math::log((1 - x) * (1 + x)), p = 0;
  if (w < 5) {
    w -= 2.5F;
    p = 2.81022636e-08F;
    p = 3.43273939e-07F + p * w;
    p = -3.5233877e-06F + p * w;
    p = -4.39150654e-06F + p * w;
    p = 0.00021858087F + p * w;
    p = -0.00125372503F + p * w;
    p = -0.00417768164F + p * w;
    p = 0.246640727F + p * w;
    p = 1.50140941F + p * w;
  } else {
    w = math::sqrt(w) - 3;
    p = -0.000200214257F;
    p = 0.000100950558F + p * w;
    p = 0.00134934322F + p * w;
    p = -0.00367342844F + p * w;
    p = 0.00573950773F + p * w;
    p = -0.0076224613F + p * w;
    p = 0.00943887047F + p * w;
    p = 1.00167406F + p * w;
    p = 2.83297682F + p * w;
  }
  return 1.41421356F * x * p;
}

}  // namespace millrace
