#include "values.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "millrace/error.h"

namespace millrace {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

std::string without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin, end - begin + 1));
}

// A number with one of these units.
template <std::size_t N>
std::optional<double> value_in(const std::string& text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string unit = without_blanks(std::string_view(end, text.data() + text.size()));
  for (const Unit& each : units) {
    if (unit == each.name) return number * each.size;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& what, const std::string& text, std::string_view expected) {
  fail(ErrorKind::usage, "{} = '{}': expected {}", what, text, expected);
}

}  // namespace

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (text.find_first_not_of(' ', begin) < end) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::pair<std::string, std::string> split_setting(std::string_view option, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) fail(ErrorKind::usage, "{}: '{}' has no value: write key=value", option, text);
  return {without_blanks(text.substr(0, equals)), without_blanks(text.substr(equals + 1))};
}

double count_value(const std::string& what, const std::string& text) {
  const auto value = value_in(text, std::array{Unit{"", 1}});
  if (!value || *value < 1 || *value > 1e6 || *value != std::floor(*value)) refuse(what, text, "a whole number of at least 1");
  return *value;
}

double factor_value(const std::string& what, const std::string& text) {
  const auto value = value_in(text, std::array{Unit{"x", 1}, Unit{"", 1}});
  if (!value || *value < 1e-3 || *value > 1e6) refuse(what, text, "how many times as fast it is, such as 2x or 0.5x");
  return *value;
}

double time_value(const std::string& what, const std::string& text) {
  const auto value = value_in(text, std::array{Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}});
  if (!value) refuse(what, text, "a time, such as 20ms, 5us or 1s");
  return *value;
}

double bandwidth_value(const std::string& what, const std::string& text) {
  const auto value =
      value_in(text, std::array{Unit{"Gb/s", 1e9 / 8}, Unit{"Mb/s", 1e6 / 8}, Unit{"GB/s", 1e9}, Unit{"MB/s", 1e6}});
  if (!value || *value <= 0) refuse(what, text, "a bandwidth, such as 100Gb/s or 25GB/s");
  return *value;
}

}  // namespace millrace
