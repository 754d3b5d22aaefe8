// Activation functions that can be fused into the layer before them.
#pragma once

#include <cstdint>

namespace millrace {

enum class Activation : std::uint8_t {
  none,
  relu,
  gelu,  // x * Phi(x), exact (erf)
};

}  // namespace millrace
