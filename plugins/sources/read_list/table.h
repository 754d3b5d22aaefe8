// Rows of a list: the cells of some columns, in any file format.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct TableFormat {
  enum class Kind { csv, tsv, json_lines } kind = Kind::csv;
  std::vector<std::string> header;  // column names for a table without them; empty: its first row has them
  bool is_cp1252 = false;           // bytes are Windows-1252; cells become UTF-8
};

struct Cell {
  std::string text;        // JSON's numbers, true and false stay as written
  std::size_t line = 0;    // from 1
  std::size_t column = 0;  // in bytes, from 1; 0 if unknown
  char separator = 0;      // between columns; 0 if there are none

  std::string place(std::string_view file) const;  // "list.csv:7:12"
};

// Calls `row` with the cells of the columns `wanted`, in that order, for each row. `text` is the whole file, `name` its name for
// messages. Returns the names of all columns; for JSON, the keys of the first line. Throws ErrorKind::data, with file, line and
// column, for invalid content.
std::vector<std::string> read_table(std::string_view text, const TableFormat& format, const std::string& name,
                                    const std::vector<std::string>& wanted,
                                    const std::function<void(std::span<const Cell>)>& row);

}  // namespace millrace
