// The search for a batch's size, without devices.
#pragma once

#include <cstdint>
#include <functional>

namespace millrace {

// The largest size from `least` to `most` that fits, as far as one is found by doubling and halving: a multiple of 8 * least that
// has five binary digits, so that few sizes are tried; `most` itself; or a multiple of `least` below. 0: nothing fits. The last
// call that said yes was for the result. REQUIRES: least > 0, most > 0; what fits still fits when it is smaller.
//
//   largest_batch(1, 50'000, [](std::uint32_t size) { return size <= 700; });   // 672: 512 and 1024 are tried, then between them
std::uint32_t largest_batch(std::uint32_t least, std::uint32_t most, const std::function<bool(std::uint32_t size)>& fits);

}  // namespace millrace
