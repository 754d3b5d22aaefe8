#include "config/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "millrace/detail/value.h"

namespace millrace {

std::optional<Quantity> parse_quantity(std::string_view text, std::span<const std::string_view> units, std::string& hint) {
  constexpr double kMax = 1e9;
  Quantity quantity;
  std::string_view unit = text;
  const bool has_number = !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (has_number) {
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), quantity.number, std::chars_format::fixed);
    if (code != std::errc() || quantity.number <= 0 || quantity.number > kMax) return std::nullopt;
    unit = text.substr(static_cast<std::size_t>(rest - text.data()));
    if (!unit.starts_with(' ')) return std::nullopt;
    unit.remove_prefix(1);
  }
  const bool plural = unit.ends_with('s');
  if (plural) unit.remove_suffix(1);
  const auto known = std::find(units.begin(), units.end(), unit);
  if (known == units.end()) {
    const auto nearest = nearest_name(unit, std::vector<std::string>(units.begin(), units.end()));
    if (nearest) hint = fmt::format("; nearest is \"{}{}\"", *nearest, plural ? "s" : "");
    return std::nullopt;
  }
  quantity.unit = static_cast<std::size_t>(std::distance(units.begin(), known));
  if (has_number || !plural) return quantity;
  hint = fmt::format("; write \"1 {}\"", unit);
  return std::nullopt;
}

std::optional<double> parse_duration(std::string_view text, std::string& hint) {
  static constexpr std::array<std::string_view, 4> kUnits = {"second", "minute", "hour", "day"};
  static constexpr std::array<double, 4> kSeconds = {1, 60, 3600, 86400};
  const auto quantity = parse_quantity(text, kUnits, hint);
  if (!quantity) return std::nullopt;
  return quantity->number * kSeconds[quantity->unit];
}

}  // namespace millrace
