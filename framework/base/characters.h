// Characters in bytes that may be no text at all.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

struct Character {
  std::size_t bytes = 0;  // 0: what stands there is no UTF-8
  char32_t code = 0;
};

// REQUIRES: text is not empty.
// Source: Unicode 15, table 3-7: well-formed byte sequences.
Character first_character(std::string_view text);

// Control characters (of seven and of eight bits, line breaks too), and those that turn the direction of writing.
bool upsets_terminal(char32_t code);

}  // namespace millrace
