// The formula that fills the tensors of tests/reference, explained in its README.
#pragma once

#include <cstdint>

namespace millrace::testkit {

inline float reference_value(std::uint32_t i, std::uint32_t phase, double scale = 1, double offset = 0) {
  std::uint32_t x = i * 2654435769U + phase * 2246822519U;
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  x ^= x >> 16;
  return static_cast<float>(offset + scale * ((x + 0.5) / 2147483648.0 - 1.0));
}

}  // namespace millrace::testkit
