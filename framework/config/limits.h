// What values from files may cost. What builds, copies and destroys them calls itself for each level, and a text of a few
// kilobytes can ask for more levels than a stack has; and references can make much of a few lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "millrace/detail/value.h"

namespace millrace {

inline constexpr int kDeepestNesting = 100;  // of tables and lists in each other; shipped files have 6

// Line and column where a table or list stands in more than `kDeepestNesting` others; nothing: none does. Of text that is no
// TOML: what stands before the mistake counts.
struct TextPlace {
  int line = 1, column = 1;
};
std::optional<TextPlace> too_deep(std::string_view toml);

// Whether it holds more than `most` levels of tables and lists. It stops there.
bool is_deeper(const Value& value, int most);

// Its characters, roughly; counting ends after `most`.
std::size_t size_of(const Value& value, std::size_t most);

}  // namespace millrace
