#include "csv.h"

#include "millrace/error.h"

namespace millrace {

CsvReader::CsvReader(std::string_view text, char separator, std::string name)
    : text_(text), separator_(separator), name_(std::move(name)) {}

bool CsvReader::at_line_end() const {
  return at_ == text_.size() || peek() == '\n' || (peek() == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n'));
}

void CsvReader::end_line() {
  if (at_ < text_.size() && peek() == '\r') ++at_;
  if (at_ < text_.size()) ++at_;
  ++line_;
  line_start_ = at_;
}

bool CsvReader::next(std::vector<Field>& fields) {
  fields.clear();
  while (at_ < text_.size() && at_line_end()) end_line();
  if (at_ == text_.size()) return false;
  while (true) {
    read_field(fields.emplace_back());
    if (at_line_end()) break;
    ++at_;  // the separator
  }
  if (at_ < text_.size()) end_line();
  return true;
}

void CsvReader::read_field(Field& field) {
  field.line = line_;
  field.column = column();
  if (at_ < text_.size() && peek() == '"') return read_quoted(field);
  while (!at_line_end() && peek() != separator_) field.text += text_[at_++];
}

void CsvReader::read_quoted(Field& field) {
  ++at_;
  while (true) {
    if (at_ == text_.size())
      fail(ErrorKind::data, "{}:{}:{}: a quote that is opened here is never closed", name_, field.line, field.column);
    const char c = text_[at_++];
    if (c == '"' && at_ < text_.size() && peek() == '"') {
      field.text += text_[at_++];
    } else if (c == '"') {
      break;
    } else {
      field.text += c;
      if (c != '\n') continue;
      ++line_;
      line_start_ = at_;
    }
  }
  if (at_line_end() || peek() == separator_) return;
  fail(ErrorKind::data, "{}:{}:{}: expected the column or the row to end after a closing quote, found '{}'", name_, line_,
       column(), peek());
}

}  // namespace millrace
