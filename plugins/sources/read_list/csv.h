// Text in columns, separated by commas, semicolons or tabs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Reads row by row by RFC 4180: a quoted field may hold separators, line breaks and doubled quotes; a quote within a bare field
// stands for itself. Unlike the RFC, blanks around a field are ignored; within quotes they count. Lines end in LF, CRLF or CR;
// blank lines are skipped.
// Errors: ErrorKind::data with the name, line and column (counted in bytes, from 1).
class CsvReader {
 public:
  struct Field {
    std::string text;
    std::size_t line = 0, column = 0;  // where it begins
  };

  // `text` must outlive the reader. `name`: of the file, for messages.
  CsvReader(std::string_view text, char separator, std::string name);

  bool next(std::vector<Field>& fields);  // false at the end

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
