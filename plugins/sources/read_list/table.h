// Rows of a list: the cells of some columns, whatever the format of the file.
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
  std::vector<std::string> header;  // of a file in columns that has none; empty: its first row is one
  bool is_cp1252 = false;           // bytes are Windows-1252, and cells become UTF-8
};

struct Cell {
  std::string text;        // numbers, true and false of JSON as they are written
  std::size_t line = 0;    // from 1
  std::size_t column = 0;  // in bytes, from 1; 0: not known
  char separator = 0;      // of the columns; 0: there are none

  std::string place(std::string_view file) const;  // "list.csv:7:12"
};

// Calls `row` with the cells of the columns `wanted`, in that order, for each row. `text` is the whole file, `name` its name for
// messages. Returns the names of all columns; of JSON, the keys of the first line. Throws ErrorKind::data, with file, line and
// column, for whatever is not as it should be.
std::vector<std::string> read_table(std::string_view text, const TableFormat& format, const std::string& name,
                                    const std::vector<std::string>& wanted,
                                    const std::function<void(std::span<const Cell>)>& row);

}  // namespace millrace
