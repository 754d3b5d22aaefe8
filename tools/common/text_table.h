// Columns of text for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

class TextTable {
 public:
  // A heading that begins with '>' makes a column of numbers, aligned right.
  explicit TextTable(std::vector<std::string> headings, int indent = 2);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.size() == 1; }
  std::string text() const;  // one line for the headings (unless all are empty), one for each row

 private:
  std::vector<std::vector<std::string>> rows_;  // the first one has the headings
  std::vector<bool> right_;
  std::string indent_;
};

std::string grouped(std::uint64_t number);  // 1234567 -> "1,234,567"

}  // namespace millrace
