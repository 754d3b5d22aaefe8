// Guesses the format of a file that is neither JPEG nor PNG.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace millrace {

// "a GIF image", "a web page", ...; empty if not recognised.
std::string_view recognise_format(std::span<const std::uint8_t> bytes);

}  // namespace millrace
