// The functions behind a layer that are computed together with it.
#pragma once

#include <cstdint>

namespace millrace {

enum class Activation : std::uint8_t {
  none,
  relu,
  gelu,  // x * Phi(x), exact (erf)
};

}  // namespace millrace
