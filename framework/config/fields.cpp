// Reading, checking and writing of one parameter: a codec for each type that a field may have.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "millrace/params.h"
#include "millrace/util/text.h"

namespace millrace {

namespace detail {
namespace {

template <class T>
struct Codec;

// "between 0 and 1", "of at least 1", or ""
std::string limits(const ParamInfo& info) {
  if (info.low && info.high) return fmt::format(" between {} and {}", *info.low, *info.high);
  if (info.low) return fmt::format(" of at least {}", *info.low);
  if (info.high) return fmt::format(" of at most {}", *info.high);
  return "";
}

bool inside(const ParamInfo& info, double value) {
  return std::isfinite(value) && (!info.low || value >= *info.low) && (!info.high || value <= *info.high);
}

constexpr double kLargestNumber = std::numeric_limits<float>::max();

bool is_choice(const ParamInfo& info, const std::string& text) {
  return std::find(info.choices.begin(), info.choices.end(), text) != info.choices.end();
}

template <>
struct Codec<bool> {
  static constexpr const char* kType = "true or false";
  static constexpr const char* kList = "list of true or false";
  static std::string expected(const ParamInfo&) { return "true or false"; }
  static bool accepts(const ParamInfo&, const Value& value) { return value.kind() == Value::Kind::boolean; }
  static bool get(const Value& value) { return value.boolean(); }
};

// "between 0 and 4294967295": the type's limits apply where the declaration has none.
template <std::integral T>
std::string limits_of(const ParamInfo& info) {
  ParamInfo bounded = info;
  if constexpr (!std::is_same_v<T, std::int64_t>) {
    bounded.low = std::max(info.low.value_or(-HUGE_VAL), static_cast<double>(std::numeric_limits<T>::min()));
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<T>::max());
    if (sizeof(T) < sizeof(std::int64_t)) bounded.high = std::min(info.high.value_or(HUGE_VAL), kHigh);
  }
  return limits(bounded);
}

template <std::integral T>
struct Codec<T> {
  static constexpr const char* kType = "integer";
  static constexpr const char* kList = "list of integers";
  static std::string expected(const ParamInfo& info) {
    const std::string number = "an integer" + limits_of<T>(info);
    return info.choices.empty() ? number : fmt::format("{}, or \"{}\"", number, fmt::join(info.choices, "\", \""));
  }
  static bool accepts(const ParamInfo& info, const Value& value) {
    if (value.kind() == Value::Kind::text) return is_choice(info, value.text());
    return value.kind() == Value::Kind::integer && std::in_range<T>(value.integer()) && inside(info, value.number());
  }
  static T get(const Value& value) { return value.kind() == Value::Kind::text ? T{0} : static_cast<T>(value.integer()); }
  static Value put(T integer) { return Value(static_cast<std::int64_t>(integer)); }
};

template <>
struct Codec<double> {
  static constexpr const char* kType = "number";
  static constexpr const char* kList = "list of numbers";
  static std::string expected(const ParamInfo& info) { return "a number" + limits(info); }
  // Readers of the value compute in float32 sooner or later.
  static bool accepts(const ParamInfo& info, const Value& value) {
    return value.is_number() && inside(info, value.number()) && std::abs(value.number()) <= kLargestNumber;
  }
  static double get(const Value& value) { return value.number(); }
};

template <>
struct Codec<float> : Codec<double> {
  static float get(const Value& value) { return static_cast<float>(value.number()); }
  static Value put(float number) { return Value(std::stod(fmt::format("{}", number))); }  // 0.1 instead of 0.100000001
};

template <>
struct Codec<std::string> {
  static constexpr const char* kType = "text";
  static constexpr const char* kList = "list of texts";
  static std::string expected(const ParamInfo& info) {
    return info.choices.empty() ? "text" : fmt::format("one of \"{}\"", fmt::join(info.choices, "\", \""));
  }
  static bool accepts(const ParamInfo& info, const Value& value) {
    return value.kind() == Value::Kind::text && (info.choices.empty() || is_choice(info, value.text()));
  }
  static std::string get(const Value& value) { return value.text(); }
};

// [first, second], or one value for both.
template <class Element>
struct Pair {
  static std::string expected(const ParamInfo& info, const char* form) {
    return fmt::format("{}, or {}", form, Codec<Element>::expected(info));
  }
  static bool accepts(const ParamInfo& info, const Value& value) {
    if (value.kind() != Value::Kind::array) return Codec<Element>::accepts(info, value);
    return value.array().size() == 2 && Codec<Element>::accepts(info, value.array()[0]) &&
           Codec<Element>::accepts(info, value.array()[1]);
  }
  static Element get(const Value& value, std::size_t index) {
    return Codec<Element>::get(value.kind() == Value::Kind::array ? value.array()[index] : value);
  }
};

template <>
struct Codec<Range> {
  static constexpr const char* kType = "[low, high]";
  static std::string expected(const ParamInfo& info) { return Pair<double>::expected(info, "[low, high] with low <= high"); }
  static bool accepts(const ParamInfo& info, const Value& value) {
    return Pair<double>::accepts(info, value) && Pair<double>::get(value, 0) <= Pair<double>::get(value, 1);
  }
  static Range get(const Value& value) { return {Pair<double>::get(value, 0), Pair<double>::get(value, 1)}; }
  static Value put(const Range& range) { return Value(Array{Value(range.low), Value(range.high)}); }
};

template <>
struct Codec<Size> {
  static constexpr const char* kType = "[height, width]";
  static std::string expected(const ParamInfo& info) { return Pair<std::int64_t>::expected(info, "[height, width]"); }
  static bool accepts(const ParamInfo& info, const Value& value) { return Pair<std::int64_t>::accepts(info, value); }
  static Size get(const Value& value) { return {Pair<std::int64_t>::get(value, 0), Pair<std::int64_t>::get(value, 1)}; }
  static Value put(const Size& size) { return Value(Array{Value(size.height), Value(size.width)}); }
};

template <>
struct Codec<Value> {
  static constexpr const char* kType = "any";
  static std::string expected(const ParamInfo&) { return "a value"; }
  static bool accepts(const ParamInfo&, const Value&) { return true; }
  static Value get(const Value& value) { return value; }
  static Value put(const Value& value) { return value; }
};

template <class Element>
struct Codec<std::vector<Element>> {
  static constexpr const char* kType = Codec<Element>::kList;
};

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

template <class T>
std::string found_in_pair(const Value& value) {
  constexpr bool pair = std::is_same_v<T, Range> || std::is_same_v<T, Size>;
  return pair && value.kind() == Value::Kind::array ? to_toml(value) : found(value);
}

// The message for a text that is not among the choices.
std::string hint_for(const ParamInfo& info, const std::string& text) {
  const auto nearest = nearest_name(text, info.choices);
  const std::string lower = lower_case(text);
  for (const auto& [word, hint] : info.hints) {
    if (lower.find(word) != std::string::npos) return "; " + hint;
  }
  return nearest ? fmt::format("; nearest is \"{}\"", *nearest) : "";
}

// The number in texts such as ".5", "016" and quoted numbers, which are not TOML numbers.
std::optional<Value> number_in(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole); read.ec == std::errc() && read.ptr == end) return Value(whole);
  double number = 0;
  if (const auto read = std::from_chars(text.data(), end, number); read.ec == std::errc() && read.ptr == end)
    return Value(number);
  return std::nullopt;
}

template <class T>
bool check(const ParamInfo& info, const Value& value, Diagnostics& errors) {
  if (Codec<T>::accepts(info, value)) return true;
  // A failed reference was already reported where it was evaluated.
  if (!errors.empty() && value.kind() == Value::Kind::text && value.text().find("${") != std::string::npos) return false;
  std::string message = fmt::format("'{}' must be {}, found {}", info.name, Codec<T>::expected(info), found_in_pair<T>(value));
  if (value.is_number() && std::isinf(value.number())) message += ", which is not finite";
  if (value.kind() == Value::Kind::real && std::isfinite(value.number()) && std::abs(value.number()) > kLargestNumber) {
    message += fmt::format(", beyond float32's largest, {:.3}", kLargestNumber);
  }
  const std::optional<Value> meant = value.kind() == Value::Kind::text ? number_in(value.text()) : std::nullopt;
  if (meant && Codec<T>::accepts(info, *meant)) {
    message += fmt::format("; write {}", to_toml(*meant));
  } else if (!info.choices.empty() && value.kind() == Value::Kind::text) {
    message += hint_for(info, value.text());
  }
  errors.add(value.at(), std::move(message));
  return false;
}

template <class T>
void read_list(const ParamInfo& info, const Value& value, std::vector<T>& field, Diagnostics& errors) {
  if constexpr (std::is_arithmetic_v<T>) {
    if (value.kind() == Value::Kind::text && is_choice(info, value.text())) return field.clear();  // the run replaces the word
    if (info.by_name && value.kind() == Value::Kind::table) {                                      // and the table by name
      ParamInfo element = info;
      element.choices.clear();
      for (const Member& member : value.table()) {
        element.name = fmt::format("{}.{}", info.name, member.key);
        check<T>(element, member.value, errors);
      }
      return field.clear();
    }
  }
  if (value.kind() != Value::Kind::array && info.or_one) {
    if (check<T>(info, value, errors)) field = {Codec<T>::get(value)};
    return;
  }
  if (value.kind() != Value::Kind::array || (info.length > 0 && value.array().size() != info.length)) {
    const std::string count = info.length > 0 ? fmt::format(" with {} values", info.length) : "";
    const std::string what = value.kind() == Value::Kind::array ? fmt::format("{}", value.array().size()) : found(value);
    const std::string words =
        info.choices.empty() || !std::is_arithmetic_v<T> ? "" : fmt::format(", or \"{}\"", fmt::join(info.choices, "\", \""));
    const char* const names = info.by_name ? ", or a table of them by name" : "";
    errors.add(value.at(),
               fmt::format("'{}' must be a {}{}{}{}, found {}", info.name, Codec<T>::kList, count, names, words, what));
    return;
  }
  ParamInfo element_info = info;
  std::vector<T> list;
  bool good = true;
  for (std::size_t i = 0; i < value.array().size(); ++i) {
    element_info.name = fmt::format("{}[{}]", info.name, i);
    good = check<T>(element_info, value.array()[i], errors) && good;
    if (good) list.push_back(Codec<T>::get(value.array()[i]));
  }
  if (good) field = std::move(list);
}

}  // namespace

template <class T>
std::string Field<T>::type() {
  return Codec<T>::kType;
}

template <class T>
void Field<T>::read(const ParamInfo& info, const Value& value, T& field, Diagnostics& errors) {
  if constexpr (kIsList<T>) {
    read_list(info, value, field, errors);
  } else {
    if (check<T>(info, value, errors)) field = Codec<T>::get(value);
  }
}

template <class T>
Value Field<T>::write(const T& field) {
  if constexpr (kIsList<T>) {
    Array list;
    for (const auto& element : field) list.push_back(Field<typename T::value_type>::write(element));
    return Value(std::move(list));
  } else if constexpr (requires { Codec<T>::put(field); }) {
    return Codec<T>::put(field);
  } else {
    return Value(field);
  }
}

#define MILLRACE_ELEMENT(T) \
  template struct Field<T>; \
  template struct Field<std::vector<T>>;
MILLRACE_ELEMENT(bool)
MILLRACE_ELEMENT(std::int32_t)
MILLRACE_ELEMENT(std::uint32_t)
MILLRACE_ELEMENT(std::int64_t)
MILLRACE_ELEMENT(std::uint64_t)
MILLRACE_ELEMENT(float)
MILLRACE_ELEMENT(double)
MILLRACE_ELEMENT(std::string)
#undef MILLRACE_ELEMENT
template struct Field<Range>;
template struct Field<Size>;
template struct Field<Value>;

}  // namespace detail
}  // namespace millrace
