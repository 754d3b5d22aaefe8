// Colours as files write them: "#804080".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace millrace {

// Red, green, blue. `key`: the parameter named in the message. Throws Error(usage) for a text that is not "#" with six
// hexadecimal digits.
std::array<std::uint8_t, 3> parse_colour(std::string_view text, std::string_view key);

}  // namespace millrace
