// The only source that uses toml++.
//
// Its tests for kinds of characters reach code marked unreachable for some characters, such as U+FE0F (found by fuzzing; 3.3.0).
// Such a character is not of the kind. Its parser also assumes a condition that it checks right afterwards, and that "[="
// violates. 3.4 has both defects, in headers whose names end in .hpp.
#if __has_include(<toml++/toml.hpp>)
#include <toml++/impl/forward_declarations.hpp>
#else
#include <toml++/impl/forward_declarations.h>
#endif
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#pragma push_macro("TOML_UNREACHABLE")
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#if __has_include(<toml++/toml.hpp>)
#include <toml++/impl/unicode.hpp>
#else
#include <toml++/impl/unicode.h>
#endif
#pragma pop_macro("TOML_UNREACHABLE")
#include <toml++/toml.h>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "config/document.h"
#include "config/limits.h"

namespace millrace {

namespace {

using FileName = std::shared_ptr<const std::string>;

Position position(const FileName& file, const toml::source_region& region) {
  return {file, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

Value convert(const toml::node& node, const FileName& file, Diagnostics& errors);

Value convert_table(const toml::table& table, const FileName& file, Diagnostics& errors) {
  Table members;
  for (const auto& [key, node] : table) {
    members.push_back({std::string(key.str()), position(file, key.source()), convert(node, file, errors)});
  }
  // toml++ sorts by name; a file has its own order.
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
  });
  return Value(std::move(members), position(file, table.source()));
}

Value convert(const toml::node& node, const FileName& file, Diagnostics& errors) {
  const Position at = position(file, node.source());
  if (const auto* table = node.as_table()) return convert_table(*table, file, errors);
  if (const auto* list = node.as_array()) {
    Array elements;
    for (const toml::node& element : *list) elements.push_back(convert(element, file, errors));
    return Value(std::move(elements), at);
  }
  if (const auto* text = node.as_string()) return Value(text->get(), at);
  if (const auto* integer = node.as_integer()) return Value(std::int64_t{integer->get()}, at);
  if (const auto* real = node.as_floating_point()) return Value(real->get(), at);
  if (const auto* boolean = node.as_boolean()) return Value(boolean->get(), at);
  errors.add(at, "dates and times mean nothing here; write it as text, in quotes");
  return Value("", at);
}

std::string_view text_of_line(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

// The likely intent of a line that is not TOML; "": unknown.
std::string hint_for_line(std::string_view line, std::string_view mistake) {
  if (mistake.find("utf-8") != mistake.npos) return "; save the file as UTF-8";
  if (mistake.find("parsing boolean") != mistake.npos) return "; true and false are lower case";
  if (mistake.ends_with("saw ','") && line.find('"') == line.npos)
    return "; numbers need a decimal point, as in 0.5, and lists [ and ]";
  for (const char* curly : {"\u201c", "\u201d", "\u201e", "\u2018", "\u2019"}) {
    if (line.find(curly) != line.npos) return fmt::format("; '{}' is not a quote of TOML: write \"", curly);
  }
  const std::size_t equals = line.find('=');
  if (equals == line.npos) return {};
  if (line.find('\\') != line.npos && line.find('"') != line.npos)
    return "; a \\ in double quotes begins an escape: write single quotes, 'C:\\photos', or /";
  if (std::count(line.begin(), line.end(), '"') % 2 == 1) return "; the closing quote is missing";
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = line.find_first_not_of(kBlank, equals + 1);
  if (begin == line.npos || mistake.find("value type") == mistake.npos) return {};
  std::string_view value = line.substr(begin, line.find('#', begin) - begin);
  value = value.substr(0, value.find_last_not_of(kBlank) + 1);
  if (value.find_first_of("[]{}\"',") != value.npos) return {};
  return fmt::format("; text needs quotes: \"{}\"", value);
}

}  // namespace

std::optional<Value> parse_toml(std::string_view text, const std::string& name, Diagnostics& errors) {
  const auto file = std::make_shared<const std::string>(name);
  if (const auto at = too_deep(text)) {
    errors.add({file, at->line, at->column}, fmt::format("tables and lists are nested more than {} deep", kDeepestNesting));
    return std::nullopt;
  }
  try {
    const toml::table table = toml::parse(text);
    return convert_table(table, file, errors);
  } catch (const toml::parse_error& error) {
    const std::string mistake(error.description());
    errors.add(position(file, error.source()), mistake + hint_for_line(text_of_line(text, error.source().begin.line), mistake));
    return std::nullopt;
  }
}

std::optional<Value> parse_set_value(const std::string& text, std::string& mistake) {
  Diagnostics ignored;
  if (too_deep("value = " + text)) {
    mistake = fmt::format("tables and lists are nested more than {} deep", kDeepestNesting);
    return std::nullopt;
  }
  try {
    const toml::table table = toml::parse("value = " + text);
    if (table.size() == 1) {
      Value value = convert(*table.get("value"), nullptr, ignored);
      if (ignored.empty()) return value;
    }
  } catch (const toml::parse_error& error) {
    const bool meant_as_toml = !text.empty() && std::string_view("[{\"'").find(text.front()) != std::string_view::npos;
    if (meant_as_toml) {
      mistake = std::string(error.description());
      return std::nullopt;
    }
  }
  return Value(text);
}

}  // namespace millrace
