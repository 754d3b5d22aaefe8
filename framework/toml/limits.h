// Limits the cost of values from files. Building, copying and destroying them recurses for each level, and a text of a few
// kilobytes can exceed the stack; and references can expand a few lines enormously.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "millrace/detail/value.h"

namespace millrace {

inline constexpr int kDeepestNesting = 100;  // levels of nested tables and lists; shipped files have 6

// Line and column where tables or lists are nested more than `kDeepestNesting` deep; empty if none are. For invalid TOML, the
// text before the mistake counts.
struct TextPlace {
  int line = 1, column = 1;
};
std::optional<TextPlace> too_deep(std::string_view toml);

// Whether it has more than `most` levels of tables and lists. Stops there.
bool is_deeper(const Value& value, int most);

// Approximate number of characters; counting stops after `most`.
std::size_t size_of(const Value& value, std::size_t most);

}  // namespace millrace
