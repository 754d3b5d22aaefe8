#include "part_column.h"

#include <algorithm>
#include <array>
#include <set>

#include "millrace/error.h"
#include "millrace/util/data_names.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

bool is_named_after_parts(const std::string& column) {
  constexpr std::array<std::string_view, 10> kNames = {"split", "set",     "dataset", "subset", "partition",
                                                       "fold",  "istrain", "isvalid", "isval",  "istest"};
  std::string name = lower_case(column);
  std::erase_if(name, [](char c) { return c == ' ' || c == '_' || c == '-'; });
  return std::ranges::find(kNames, name) != kNames.end();
}

// "test", "2" for a fold, "False" for is_valid. Other words mean something else, such as an image's origin.
bool is_part(const std::string& value) {
  constexpr std::string_view kDigits = "0123456789.";
  const std::string word = lower_case(value);
  return part_name(word) || word == "true" || word == "false" || word.find_first_not_of(kDigits) == word.npos;
}

bool tells_parts(std::string_view text, const TableFormat& format, const std::string& name, const std::string& column) {
  constexpr std::size_t kMostParts = 20;
  std::set<std::string> values;
  try {
    read_table(text, format, name, {column}, [&values](std::span<const Cell> cells) {
      if (values.size() <= kMostParts) values.insert(cells.front().text);
    });
  } catch (const Error&) {  // a JSON line without it; the wanted columns were read before
    return false;
  }
  return values.size() > 1 && values.size() <= kMostParts && std::ranges::all_of(values, is_part);
}

}  // namespace

std::string part_column(std::string_view text, const TableFormat& format, const std::string& name,
                        const std::vector<std::string>& columns, const std::vector<std::string>& used) {
  for (const std::string& column : columns) {
    if (!is_named_after_parts(column) || std::ranges::find(used, column) != used.end()) continue;
    if (tells_parts(text, format, name, column)) return column;
  }
  return {};
}

}  // namespace millrace
