#include "table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>

#include "millrace/error.h"
#include "millrace/params.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

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

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kMaxColumns =
    100'000;  // a file of another kind may be one long row, and a field takes many times the memory of its text

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
    if (fields.size() == kMaxColumns) {
      fail(ErrorKind::data, "{}:{}: this row has more than {} columns: name a list, with a row for each image", name_, line_,
           kMaxColumns);
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
      fail(ErrorKind::data, "{}:{}:{}: a quote opened here is never closed", name_, field.line, field.column);
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

using Json = nlohmann::json;
using OnRow = std::function<void(std::span<const Cell>)>;

// The first few, joined; the first row of a file that is not a table can have any length.
std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMax = 20, kLongest = 300;
  const auto count = static_cast<std::ptrdiff_t>(std::min(names.size(), kMax));
  const std::string text = line_text(fmt::format("{}", fmt::join(names.begin(), names.begin() + count, "', '")));
  return names.size() > kMax || text.size() > kLongest ? text.substr(0, kLongest) + " ..." : text;
}

// The field index of each wanted column.
std::vector<std::size_t> find_columns(const std::vector<std::string>& header, const std::vector<std::string>& wanted,
                                      const std::string& place) {
  std::vector<std::size_t> columns;
  std::multimap<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < header.size(); ++i) places.emplace(header[i], i);
  for (const std::string& name : wanted) {
    const auto found = places.find(name);
    if (found == places.end()) {
      const auto nearest = nearest_name(name, header);
      const char* const key = name == "file_name" ? "file" : name == "label" ? "label" : nullptr;
      const std::string meant = !nearest ? "" : line_text(*nearest);
      const bool is_text = std::ranges::all_of(header, [](const std::string& each) { return is_utf8(each); });
      fail(ErrorKind::data, "{}: unknown column '{}'{}; the columns are '{}'{}", place, name,
           !is_text         ? ": its names are not UTF-8; encoding = \"cp1252\" reads lists from Windows"
           : !nearest       ? ""
           : key == nullptr ? fmt::format(" (did you mean '{}'?)", meant)
                            : fmt::format(" (did you mean '{0}'? {1} = \"{0}\" selects it)", meant, key),
           first_names(header),
           nearest ? "" : "; `file` and `label` select other columns; without a header row, `columns` names them");
    }
    if (places.count(name) > 1) fail(ErrorKind::data, "{}: two columns are called '{}'", place, name);
    columns.push_back(found->second);
  }
  return columns;
}

// Removes the line "sep=;" that spreadsheets write, and returns its separator; 0 if there is none.
char take_separator_line(std::string_view& text) {
  if (!text.starts_with("sep=") || text.size() < 5) return 0;
  const char separator = text[4];
  std::string_view rest = text.substr(5);
  if (!rest.empty() && !next_line(rest).empty()) return 0;
  text = rest;
  return separator;
}

// A .csv file may use semicolons, which spreadsheets write with decimal commas, or tabs. The separator is the first one that
// yields the wanted columns in the first row, or as many columns as `format` names; else the format's usual one. Blanks separate
// columns if `format` names them, as in "a/1.jpg 0".
char separator_of(std::string_view text, char usual, const TableFormat& format, const std::vector<std::string>& wanted) {
  for (const char separator : {usual, ',', ';', '\t', '|', ' '}) {
    if (separator == ' ' && format.header.empty()) continue;
    CsvReader reader(text, separator, {});
    std::vector<CsvReader::Field> fields;
    const auto has = [&](const std::string& name) {
      return std::any_of(fields.begin(), fields.end(), [&](const CsvReader::Field& field) { return field.text == name; });
    };
    try {
      if (!reader.next(fields)) return usual;
    } catch (const Error&) {  // with this separator, a quote is in the middle of a field
      continue;
    }
    const bool fits =
        format.header.empty() ? std::all_of(wanted.begin(), wanted.end(), has) : fields.size() == format.header.size();
    if (fits) return separator;
  }
  return usual;
}

std::vector<std::string> read_columns(std::string_view text, char usual, const TableFormat& format, const std::string& name,
                                      const std::vector<std::string>& wanted, const OnRow& row) {
  const char declared = take_separator_line(text),
             separator = declared != 0 ? declared : separator_of(text, usual, format, wanted);
  CsvReader reader(text, separator, name);
  std::vector<CsvReader::Field> fields;
  std::vector<std::string> header = format.header;
  if (header.empty()) {
    if (!reader.next(fields)) fail(ErrorKind::data, "'{}' is empty: expected a row with the names of its columns", name);
    for (const CsvReader::Field& field : fields) header.push_back(field.text);
  }
  const std::vector<std::size_t> columns = find_columns(header, wanted, format.header.empty() ? name + ":1" : "columns");
  std::vector<Cell> cells(columns.size());
  const auto is_blank = [](const CsvReader::Field& field) { return field.text.empty(); };
  while (reader.next(fields)) {
    if (fields.size() > 1 && std::all_of(fields.begin(), fields.end(), is_blank)) continue;  // as in spreadsheets
    if (fields.size() != header.size()) {
      fail(ErrorKind::data, "{}:{}: {} column{} instead of {}", name, fields.front().line, fields.size(),
           fields.size() == 1 ? "" : "s", header.size());
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const CsvReader::Field& field = fields[columns[i]];  // may be wanted twice, as a label and as a number
      cells[i] = {field.text, field.line, field.column, separator};
    }
    row(cells);
  }
  return header;
}

Json parse_line(std::string_view line, const std::string& name, std::size_t number) {
  std::set<std::string> keys;
  const auto refuse_repeated_key = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key && !keys.insert(parsed.get<std::string>()).second)
      fail(ErrorKind::data, "{}:{}: '{}' is listed twice", name, number, parsed.get<std::string>());
    return true;
  };
  try {
    Json object = Json::parse(line.begin(), line.end(), refuse_repeated_key);
    if (object.is_object()) return object;
  } catch (const Json::parse_error& error) {
    fail(ErrorKind::data, "{}:{}:{}: this is not JSON", name, number, std::max<std::size_t>(error.byte, 1));
  } catch (const Json::out_of_range&) {
    fail(ErrorKind::data, "{}:{}: a number is too large", name, number);
  }
  fail(ErrorKind::data, "{}:{}: expected an object such as {{\"file_name\": \"a.jpg\", \"label\": \"cat\"}}", name, number);
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::string cell_text(const Json& object, const std::string& key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) {
    const auto nearest = nearest_name(key, keys_of(object));
    fail(ErrorKind::data, "{}: '{}' is missing{}", place, key, nearest ? fmt::format(" (did you mean '{}'?)", *nearest) : "");
  }
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number() || found->is_boolean()) return found->dump();
  fail(ErrorKind::data, "{}: '{}' must be a text or a number, found {}", place, key,
       found->is_null()    ? "null"
       : found->is_array() ? "a list"
                           : "an object");
}

std::vector<std::string> read_json_lines(std::string_view text, const std::string& name, const std::vector<std::string>& wanted,
                                         const OnRow& row) {
  std::vector<std::string> keys;
  std::vector<Cell> cells(wanted.size());
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = next_line(text);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const Json object = parse_line(line, name, number);
    if (keys.empty()) keys = keys_of(object);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      cells[i] = {cell_text(object, wanted[i], fmt::format("{}:{}", name, number)), number, 0, 0};
    }
    row(cells);
  }
  return keys;
}

// Detects other programs' files with the name of a list. UTF-16 without its mark has a zero in each English letter.
void require_text(std::string_view text, const std::string& name) {
  constexpr std::size_t kLooked = 4096;
  const std::string_view begin = text.substr(0, kLooked);
  const char* const what = begin.starts_with("PK\x03\x04") ? "a ZIP archive, such as Excel's .xlsx: save it as CSV"
                           : begin.starts_with("\x1f\x8b") ? "compressed by gzip: unpack it"
                                                           : nullptr;
  if (what != nullptr) fail(ErrorKind::data, "'{}' is {}", name, what);
  const std::size_t zeros = static_cast<std::size_t>(std::count(begin.begin(), begin.end(), '\0'));
  const bool has_mark = begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff");
  if (has_mark || (zeros > 0 && 3 * zeros >= begin.size())) fail(ErrorKind::data, "'{}' is UTF-16: save it as UTF-8", name);
}

// Converts Windows-1252 to UTF-8: Latin-1 except 0x80 to 0x9f, of which five are undefined.
std::string text_of_cp1252(std::string_view bytes) {
  constexpr std::array<std::uint16_t, 32> kSpecial = {0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                                      0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d,   0x017d, 0x8f,
                                                      0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                                      0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const unsigned code = byte >= 0x80 && byte < 0xa0 ? kSpecial[byte - 0x80U] : byte;
    if (code >= 0x800) text += static_cast<char>(0xe0U | code >> 12U);
    if (code >= 0x80) text += static_cast<char>(code >= 0x800 ? 0x80U | (code >> 6U & 0x3fU) : 0xc0U | code >> 6U);
    text += static_cast<char>(code >= 0x80 ? 0x80U | (code & 0x3fU) : code);
  }
  return text;
}

}  // namespace

std::string Cell::place(std::string_view file) const {
  return column > 0 ? fmt::format("{}:{}:{}", file, line, column) : fmt::format("{}:{}", file, line);
}

std::vector<std::string> read_table(std::string_view text, const TableFormat& format, const std::string& name,
                                    const std::vector<std::string>& wanted, const OnRow& row) {
  require_text(text, name);
  if (format.is_cp1252) {
    TableFormat decoded = format;
    decoded.is_cp1252 = false;
    return read_table(text_of_cp1252(text), decoded, name, wanted, row);
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  switch (format.kind) {
    case TableFormat::Kind::csv: return read_columns(text, ',', format, name, wanted, row);
    case TableFormat::Kind::tsv: return read_columns(text, '\t', format, name, wanted, row);
    case TableFormat::Kind::json_lines: return read_json_lines(text, name, wanted, row);
  }
  return {};
}

}  // namespace millrace
