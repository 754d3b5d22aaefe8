// The types allowed for parameter fields, and the compiler's message for others. Part of params.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/detail/param_info.h"
#include "millrace/detail/value.h"

namespace millrace {

class Diagnostics;
struct Range;
struct Size;
template <class Struct>
class ParamSet;

namespace detail {

// Reads a field from a value, and writes it as one. The types of kIsScalar, and vectors of those of kIsElement, are compiled in
// config/fields.cpp.
template <class T>
struct Field {
  static std::string type();
  static void read(const ParamInfo& info, const Value& value, T& field, Diagnostics& errors);
  static Value write(const T& field);
};

// As many values as the array has (ParamInfo::length); or_one(): one value for all.
template <class T, std::size_t N>
struct Field<std::array<T, N>> {
  static std::string type() { return Field<std::vector<T>>::type(); }
  static void read(const ParamInfo& info, const Value& value, std::array<T, N>& field, Diagnostics& errors) {
    std::vector<T> list;
    Field<std::vector<T>>::read(info, value, list, errors);
    if (list.size() != N && list.size() != 1) return;  // already reported
    for (std::size_t i = 0; i < N; ++i) field[i] = list[list.size() == N ? i : 0];
  }
  static Value write(const std::array<T, N>& field) { return Field<std::vector<T>>::write({field.begin(), field.end()}); }
};

template <class T>
struct Field<std::optional<T>> {
  static std::string type() { return Field<T>::type(); }
  static void read(const ParamInfo& info, const Value& value, std::optional<T>& field, Diagnostics& errors);
  static Value write(const std::optional<T>& field) { return field ? Field<T>::write(*field) : Value(); }
};

template <class T, class... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);
template <class T>
inline constexpr bool kIsElement =
    kIsOneOf<T, bool, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double, std::string>;
template <class T>
inline constexpr bool kIsScalar = kIsElement<T> || kIsOneOf<T, Range, Size>;

// The element type of an optional, a vector or an array, and an array's size.
template <class T>
struct Inside {
  using type = T;
  static constexpr bool kIsField = kIsScalar<T> || std::is_same_v<T, Value>;
  static constexpr std::size_t kLength = 0;
};
template <class T>
struct Inside<std::vector<T>> {
  using type = T;
  static constexpr bool kIsField = kIsElement<T>;
  static constexpr std::size_t kLength = 0;
};
template <class T, std::size_t N>
struct Inside<std::array<T, N>> {
  using type = T;
  static constexpr bool kIsField = kIsElement<T> && N > 0;
  static constexpr std::size_t kLength = N;
};
template <class T>
struct Inside<std::optional<T>> {
  using type = typename Inside<T>::type;
  static constexpr bool kIsField = Inside<T>::kIsField && !std::is_same_v<T, Value>;
  static constexpr std::size_t kLength = Inside<T>::kLength;
};
template <class T>
struct Inside<std::optional<std::optional<T>>> : Inside<void> {};

template <class T>
inline constexpr bool kDescribesItself = requires(ParamSet<T>& members) {
  T::describe(members);
};

// Gives a single line for each unsupported field type, and no other error.
template <class T>
constexpr void check_field() {
  using Element = typename Inside<T>::type;
  constexpr bool kIsStruct =
      std::is_class_v<Element> && std::is_aggregate_v<Element> && !kIsScalar<Element> && Inside<Element>::kLength == 0;
  static_assert(Inside<T>::kIsField || !std::is_enum_v<Element>,
                "an enum needs the names of its values: "
                "add(\"mode\", &Params::mode, {{\"fast\", Mode::fast}, {\"exact\", Mode::exact}})");
  static_assert(
      Inside<T>::kIsField || !kIsStruct,
      "a struct is a table: give it `static void describe(millrace::ParamSet<T>&)`, or declare it with add_table(), and "
      "a std::vector of it with add_list()");
  static_assert(Inside<T>::kIsField || std::is_enum_v<Element> || kIsStruct,
                "a parameter cannot have the type of this field; the types are bool, int, std::uint32_t, std::int64_t, "
                "std::uint64_t, float, double, std::string, a std::vector or std::array of those, millrace::Range, Size, Value, "
                "an enum, a struct, or a std::optional; see millrace/params.h");
}

// Argument of add() for an enum: its names.
template <class E>
using EnumNames = std::vector<std::pair<std::string, E>>;

template <class T>
struct EnumField {
  using Text = std::string;
  static Text text(const EnumNames<T>& names, T value) {
    for (const auto& [name, named] : names) {
      if (named == value) return name;
    }
    return {};
  }
  static T value(const EnumNames<T>& names, const Text& text) {
    for (const auto& [name, named] : names) {
      if (name == text) return named;
    }
    return {};
  }
};
template <class T>
struct EnumField<std::optional<T>> {
  using Text = std::optional<std::string>;
  static Text text(const EnumNames<T>& names, std::optional<T> value) {
    return value ? Text(EnumField<T>::text(names, *value)) : Text();
  }
  static std::optional<T> value(const EnumNames<T>& names, const Text& text) {
    return text ? std::optional<T>(EnumField<T>::value(names, *text)) : std::optional<T>();
  }
};
template <class T>
struct EnumField<std::vector<T>> {
  using Text = std::vector<std::string>;
  static Text text(const EnumNames<T>& names, const std::vector<T>& values) {
    Text texts;
    for (const T value : values) texts.push_back(EnumField<T>::text(names, value));
    return texts;
  }
  static std::vector<T> value(const EnumNames<T>& names, const Text& texts) {
    std::vector<T> values;
    for (const std::string& text : texts) values.push_back(EnumField<T>::value(names, text));
    return values;
  }
};

}  // namespace detail
}  // namespace millrace
