#include "rows.h"

#include <fmt/format.h>

namespace millrace {
namespace {

std::string cell_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : value.dump();
}

}  // namespace

std::string csv_of(const Json& rows, const std::vector<std::string>& names) {
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& name : names) cells.push_back(cell_of(row.at(name)));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace millrace
