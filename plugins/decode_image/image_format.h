// What a file that is no JPEG seems to be.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace millrace {

// "a PNG image", "a web page", ...; empty when the first bytes tell nothing.
std::string_view recognise_format(std::span<const std::uint8_t> bytes);

}  // namespace millrace
