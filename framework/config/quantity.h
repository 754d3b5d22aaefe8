// A number and its unit, as texts of a pipeline have them: "1 epoch", "2 epochs", "0.5 hours"; "1 epochs" is as good. A unit
// alone means one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

struct Quantity {
  double number = 1;     // more than 0, at most 1e9
  std::size_t unit = 0;  // index into the units that were asked for
};

// `units`: in the singular. Nothing for what cannot be read. `hint`: then what would be right, where that can be told:
// "; write \"2 epochs\"".
std::optional<Quantity> parse_quantity(std::string_view text, std::span<const std::string_view> units, std::string& hint);

// Seconds, of "90 seconds", "1 minute", "2.5 hours" or "3 days". Otherwise as parse_quantity().
std::optional<double> parse_duration(std::string_view text, std::string& hint);

// For messages: what may be written.
inline constexpr const char* kDurationForms = "a time such as \"90 seconds\", \"1 minute\", \"2.5 hours\" or \"3 days\"";

}  // namespace millrace
