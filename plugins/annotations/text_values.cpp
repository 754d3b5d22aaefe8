#include "text_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

std::optional<double> parsed_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

int whole_number(double value) {
  constexpr double kMost = 1e9;
  if (!(std::abs(value) <= kMost) || value != std::floor(value)) fail(ErrorKind::data, "{} is not a width or height", value);
  return static_cast<int>(value);
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(by);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words(std::string_view text) {
  constexpr const char* kBlanks = " \t\r";
  std::vector<std::string_view> found;
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return found;
}

std::vector<double> listed_numbers(std::string_view text, std::string_view separators, std::string_view what) {
  std::vector<double> values;
  while (!trimmed(text).empty()) {
    const std::size_t end = text.find_first_of(separators);
    const std::string_view part = text.substr(0, end);
    const auto value = parsed_number(part);
    if (!value) fail(ErrorKind::data, "{}: '{}' is not a number", what, shown(part, 40));
    values.push_back(*value);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return values;
}

}  // namespace millrace
