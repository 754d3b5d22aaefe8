// A number and its unit in texts of a pipeline: "1 epoch", "2 epochs", "0.5 hours"; "1 epochs" is accepted too. A unit alone
// means one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

struct Quantity {
  double number = 1;     // more than 0, at most 1e9
  std::size_t unit = 0;  // index into the given units
};

// `units`: in the singular. Empty if the text is invalid. `hint`: then a correction, if one is known: "; write \"2 epochs\"".
std::optional<Quantity> parse_quantity(std::string_view text, std::span<const std::string_view> units, std::string& hint);

// Seconds, from "90 seconds", "1 minute", "2.5 hours" or "3 days". Otherwise like parse_quantity().
std::optional<double> parse_duration(std::string_view text, std::string& hint);

// The valid forms, for messages.
inline constexpr const char* kDurationForms = "a time such as \"90 seconds\", \"1 minute\", \"2.5 hours\" or \"3 days\"";

}  // namespace millrace
