#include "millrace/util/csv_head.h"

#include <fmt/format.h>

#include <set>

#include "millrace/util/output_file.h"
#include "util/characters.h"

namespace millrace {

std::string csv_head(const std::vector<std::string>& names) {
  std::vector<std::string> cells(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) append_cell(cells[i], names[i]);
  const std::set<std::string> wanted(cells.begin(), cells.end());
  std::set<std::string> taken;
  std::string row;
  for (const std::string& cell : cells) {
    std::string name = cell;
    for (int number = 2; taken.contains(name) || (name != cell && wanted.contains(name)); ++number)
      name = fmt::format("{}_{}", cell, number);
    append_csv(row, name);
    row += ',';
    taken.insert(std::move(name));
  }
  if (!row.empty()) row.pop_back();
  return row + "\r\n";
}

}  // namespace millrace
