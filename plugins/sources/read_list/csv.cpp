#include "csv.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace {

namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kMostColumns =
    100'000;  // a file of another kind may be one long row, and a field takes many times the memory of its text

}  // namespace

CsvReader::CsvReader(std::string_view text, char separator, std::string name)
    : text_(text), separator_(separator), name_(std::move(name)) {}

bool CsvReader::at_line_end() const { return at_ == text_.size() || peek() == '\n' || peek() == '\r'; }

void CsvReader::end_line() {
  const bool is_pair = text_.substr(at_).starts_with("\r\n");
  at_ = std::min(at_ + (is_pair ? 2 : 1), text_.size());
  ++line_;
  line_start_ = at_;
}

bool CsvReader::next(std::vector<Field>& fields) {
  fields.clear();
  for (skip_blanks(); at_ < text_.size() && at_line_end(); skip_blanks()) end_line();
  if (at_ == text_.size()) return false;
  while (true) {
    if (fields.size() == kMostColumns) {
      fail(ErrorKind::data, "{}:{}: this row has more than {} columns: name a list, with a row for each image", name_, line_,
           kMostColumns);
    }
    read_field(fields.emplace_back());
    if (at_line_end()) break;
    ++at_;  // the separator
  }
  if (at_ < text_.size()) end_line();
  return true;
}

void CsvReader::skip_blanks() {
  while (at_ < text_.size() && peek() != separator_ && kBlanks.find(peek()) != kBlanks.npos) ++at_;
}

void CsvReader::read_field(Field& field) {
  skip_blanks();
  field.line = line_;
  field.column = column();
  if (at_ < text_.size() && peek() == '"') return read_quoted(field);
  const std::size_t begin = at_;
  while (!at_line_end() && peek() != separator_) ++at_;
  field.text = text_.substr(begin, at_ - begin);
  field.text.erase(field.text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
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
      if (c != '\n' && !(c == '\r' && !text_.substr(at_).starts_with('\n'))) continue;
      ++line_;
      line_start_ = at_;
    }
  }
  skip_blanks();
  if (at_line_end() || peek() == separator_) return;
  fail(ErrorKind::data, "{}:{}:{}: expected the column or the row to end after a closing quote, found '{}'", name_, line_,
       column(), peek());
}

}  // namespace millrace
