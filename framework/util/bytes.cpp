#include "millrace/util/bytes.h"

#include <charconv>
#include <utility>

namespace millrace {

std::uint64_t parse_bytes(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || !(value > 0)) return 0;
  std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},         {"B", 1},         {"kB", 1e3},       {"KB", 1e3},
                                                            {"MB", 1e6},     {"GB", 1e9},      {"TB", 1e12},      {"KiB", 0x1p10},
                                                            {"MiB", 0x1p20}, {"GiB", 0x1p30},  {"TiB", 0x1p40}};
  for (const auto& [name, factor] : kUnits) {
    if (unit == name && value * factor < 9e18) return static_cast<std::uint64_t>(value * factor);
  }
  return 0;
}

std::string hex_text(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) text.append({kDigits[byte >> 4U], kDigits[byte & 15U]});
  return text;
}

}  // namespace millrace
