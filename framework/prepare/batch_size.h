// Searches for a batch size, without devices.
#pragma once

#include <cstdint>
#include <functional>

namespace millrace {

// Searches the largest size from `least` to `most` that fits, by doubling and halving. The result is a multiple of 8 * least
// with five binary digits, so that few sizes are tried; or `most`; or a smaller multiple of `least`. 0: nothing fits. The last
// call that returned true was for the result. REQUIRES: least > 0, most > 0; smaller sizes fit if larger ones do.
//
//   largest_batch(1, 50'000, [](std::uint32_t size) { return size <= 700; });   // 672: 512 and 1024 are tried, then between them
std::uint32_t largest_batch(std::uint32_t least, std::uint32_t most, const std::function<bool(std::uint32_t size)>& fits);

}  // namespace millrace
