#include "label.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace millrace {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kSpace = " \t\r\n\v\f";

Label label_of_number(std::int64_t number) {
  if (number < 0 || number > kLargestLabel) return {Label::Kind::unreadable, 0, std::to_string(number)};
  return {Label::Kind::number, static_cast<std::int32_t>(number), {}};
}

// The object's field; null if missing.
Json field_of(std::span<const std::uint8_t> json, const std::string& field) {
  Json object = Json::parse(json.begin(), json.end(), nullptr, false);
  if (!object.is_object()) return {};
  const auto found = object.find(field);
  return found == object.end() ? Json() : std::move(*found);
}

}  // namespace

Label label_of_text(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // some editors begin UTF-8 with this mark
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {Label::Kind::unreadable, 0, "no text"};
  text = text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return {Label::Kind::unreadable, 0, "too large a number"};
  if (error == std::errc() && end == text.data() + text.size()) {
    Label label = label_of_number(number);
    if (label.kind != Label::Kind::number || std::to_string(number) == text) return label;
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (text.size() > kLongestClassName || std::any_of(text.begin(), text.end(), is_control))
    return {Label::Kind::unreadable, 0, "an invalid name"};
  return {Label::Kind::name, 0, std::string(text)};
}

Label label_of_json(std::span<const std::uint8_t> json, const std::string& field) {
  const Json value = field_of(json, field);
  if (value.is_number()) {  // pandas writes integers with a decimal point if some are missing
    const double number = value.get<double>();
    const bool is_label = number >= 0 && number <= kLargestLabel && number == std::floor(number);
    if (!is_label) return {Label::Kind::unreadable, 0, value.dump()};
    return label_of_number(static_cast<std::int64_t>(number));
  }
  if (value.is_string()) return label_of_text(value.get_ref<const std::string&>());
  const char* const found = value.is_null()      ? "none"
                            : value.is_boolean() ? "true or false"
                            : value.is_array()   ? "a list"
                                                 : "an object";
  return {Label::Kind::unreadable, 0, found};
}

std::vector<std::string> fields_of_json(std::span<const std::uint8_t> json, std::size_t most) {
  const Json object = Json::parse(json.begin(), json.end(), nullptr, false);
  std::vector<std::string> fields;
  if (!object.is_object()) return fields;
  for (auto member = object.begin(); member != object.end() && fields.size() < most; ++member) fields.push_back(member.key());
  return fields;
}

std::vector<float> numbers_of_json(std::span<const std::uint8_t> json, const std::string& field) {
  const Json value = field_of(json, field);
  std::vector<float> numbers;
  const auto add = [&](const Json& element) {
    const double number = element.is_number() ? element.get<double>() : std::nan("");
    numbers.push_back(static_cast<float>(number));
  };
  if (value.is_array()) {
    for (const Json& element : value) add(element);
  } else if (!value.is_null()) {
    add(value);
  }
  const bool finite = std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
  return finite ? numbers : std::vector<float>();
}

}  // namespace millrace
