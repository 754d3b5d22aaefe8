// Bytes and byte counts as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

// "1048576", "500 MB", "1.5GB", "8 GiB": decimal and binary units up to tera; 0 for other texts.
std::uint64_t parse_bytes(std::string_view text);

std::string hex_text(std::span<const std::uint8_t> bytes);  // "0a1b": two digits per byte

}  // namespace millrace
