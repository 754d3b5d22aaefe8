// Numbers of bytes as people write them.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

// "1048576", "500 MB", "1.5GB", "8 GiB": decimal and binary units up to tera; 0 when it is none of these.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace millrace
