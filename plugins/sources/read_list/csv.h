// Text in columns, separated by commas, semicolons or tabs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Reads row by row, as RFC 4180 has it: a field in double quotes may hold separators, line breaks and doubled quotes; a quote
// within a bare field is itself. Other than there, blanks around a field do not count; within quotes they do. Lines end in LF,
// CRLF or CR; blank lines are passed over.
// Errors: ErrorKind::data with the name, line and column (counted in bytes, from 1).
class CsvReader {
 public:
  struct Field {
    std::string text;
    std::size_t line = 0, column = 0;  // where it begins
  };

  // `text` is to outlive the reader. `name`: of the file, for messages.
  CsvReader(std::string_view text, char separator, std::string name);

  bool next(std::vector<Field>& fields);  // false: there are no more rows

 private:
  void skip_blanks();
  void read_field(Field& field);
  void read_quoted(Field& field);
  bool at_line_end() const;
  void end_line();
  char peek() const { return text_[at_]; }
  std::size_t column() const { return at_ - line_start_ + 1; }

  std::string_view text_;
  char separator_;
  std::string name_;
  std::size_t at_ = 0, line_ = 1, line_start_ = 0;
};

}  // namespace millrace
