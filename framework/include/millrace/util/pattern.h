// Patterns of names, as users write them for parameters: "layer1.*.bias".
#pragma once

#include <string_view>

namespace millrace {

// Whether the pattern fits the whole name. "*" stands for any text, "?" for any character. Takes no
// memory; the time is at most the product of both lengths.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace millrace
