#include "text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {

TextTable::TextTable(std::vector<std::string> headings, int indent) : indent_(static_cast<std::size_t>(indent), ' ') {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading = heading.substr(1);
  }
  rows_.push_back(std::move(headings));
}

void TextTable::row(std::vector<std::string> cells) {
  cells.resize(right_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const bool headed = std::any_of(rows_[0].begin(), rows_[0].end(), [](const std::string& heading) { return !heading.empty(); });
  std::string out;
  for (std::size_t r = headed ? 0 : 1; r < rows_.size(); ++r) {
    std::string line = indent_;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] == 0) continue;
      line += right_[i] ? fmt::format("{:>{}}  ", rows_[r][i], widths[i]) : fmt::format("{:<{}}  ", rows_[r][i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace millrace
