// What a file that is neither JPEG nor PNG seems to be.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace millrace {

// "a GIF image", "a web page", ...; empty when the first bytes tell nothing.
std::string_view recognise_format(std::span<const std::uint8_t> bytes);

}  // namespace millrace
