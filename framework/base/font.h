#pragma once

#include <array>
#include <cstdint>

namespace millrace {

inline constexpr int kGlyphWidth = 5, kGlyphHeight = 7;

// The rows of a character, the leftmost pixel in bit 4. Letters have one form, the capital; what is not there looks like a box.
const std::array<std::uint8_t, kGlyphHeight>& glyph(char character);

}  // namespace millrace
