// JSON for the page. Numbers have six digits, enough for a screen.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "millrace/util/output_file.h"

namespace millrace::page {

inline std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

inline std::string quoted(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

// An object, whose members may be objects and lists.
//
//   JsonObject().add("step", 3).add("loss", 0.25).raw("curves", "{}").text()
class JsonObject {
 public:
  JsonObject& raw(std::string_view name, std::string_view json) {
    if (!members_.empty()) members_ += ',';
    append_json(members_, name);
    members_ += ':';
    members_ += json;
    return *this;
  }
  JsonObject& add(std::string_view name, std::string_view text) { return raw(name, quoted(text)); }
  JsonObject& add(std::string_view name, const char* text) { return raw(name, quoted(text)); }
  JsonObject& add(std::string_view name, double value) { return raw(name, number(value)); }
  JsonObject& add(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonObject& add(std::string_view name, T value) {
    return raw(name, std::to_string(value));
  }
  bool empty() const { return members_.empty(); }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

// [a,b] from `json` of each.
template <class Range, class Json>
std::string list(const Range& range, const Json& json) {
  std::string text = "[";
  for (const auto& each : range) {
    if (text.size() > 1) text += ',';
    text += json(each);
  }
  return text + "]";
}

}  // namespace millrace::page
