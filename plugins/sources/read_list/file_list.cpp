#include "file_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/class_labels.h"
#include "millrace/util/data_names.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

bool is_named_after_parts(const std::string& column) {
  constexpr std::array<std::string_view, 10> kNames = {"split", "set",     "dataset", "subset", "partition",
                                                       "fold",  "istrain", "isvalid", "isval",  "istest"};
  std::string name = lower_case(column);
  std::erase_if(name, [](char c) { return c == ' ' || c == '_' || c == '-'; });
  return std::ranges::find(kNames, name) != kNames.end();
}

// "test", "2" for a fold, "False" for is_valid. Other words mean something else, such as an image's origin.
bool is_part(const std::string& value) {
  constexpr std::string_view kDigits = "0123456789.";
  const std::string word = lower_case(value);
  return part_name(word) || word == "true" || word == "false" || word.find_first_not_of(kDigits) == word.npos;
}

bool names_parts(std::string_view text, const TableFormat& format, const std::string& name, const std::string& column) {
  constexpr std::size_t kMaxParts = 20;
  std::set<std::string> values;
  try {
    read_table(text, format, name, {column}, [&values](std::span<const Cell> cells) {
      if (values.size() <= kMaxParts) values.insert(cells.front().text);
    });
  } catch (const Error&) {  // a JSON line without it; the wanted columns were read before
    return false;
  }
  return values.size() > 1 && values.size() <= kMaxParts && std::ranges::all_of(values, is_part);
}

// The first of `columns` that has such a name, is not `used`, and distinguishes files; "" if none.
std::string part_column(std::string_view text, const TableFormat& format, const std::string& name,
                        const std::vector<std::string>& columns, const std::vector<std::string>& used) {
  for (const std::string& column : columns) {
    if (!is_named_after_parts(column) || std::ranges::find(used, column) != used.end()) continue;
    if (names_parts(text, format, name, column)) return column;
  }
  return {};
}

constexpr std::int64_t kMaxClasses = 1 << 20;  // a larger label is a mistake, such as a price in the wrong column

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// An integer in the usual form of a class number: no "+1", no "007".
std::optional<std::int64_t> parse_integer(std::string_view text) {
  const auto number = parse<std::int64_t>(text);
  return number && std::to_string(*number) == text ? number : std::nullopt;
}

// Also accepts "+1.5" and "True", which other programs write.
std::optional<double> parse_number(std::string_view text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "false") return word == "true" ? 1 : 0;
  return parse<double>(text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text);
}

// "1,5". With semicolons between columns the comma is decimal; otherwise "1,500" may be 1500, and this does not guess.
std::optional<double> parse_with_comma(const Cell& cell) {
  std::string text(trimmed(cell.text));
  const std::size_t comma = text.find(','), digits = text.find_first_of("0123456789");
  if (comma == text.npos || digits >= comma || text.find_first_of(",.", comma + 1) != text.npos) return {};
  const std::size_t behind = text.find_first_not_of("0123456789", comma + 1);
  const bool may_be_thousands =
      std::min(behind, text.size()) - comma == 4 && text[digits] != '0' && comma - digits <= 3 && behind == text.npos;
  if (cell.separator != ';' && may_be_thousands) return {};
  text[comma] = '.';
  return parse_number(text);
}

class ListBuilder {
 public:
  ListBuilder(const std::string& name, const ListColumns& columns, const std::vector<std::string>& classes)
      : name_(name), columns_(columns), given_(classes) {}

  void add(std::span<const Cell> cells) {
    add_path(cells.front());
    cells = cells.subspan(1);
    if (columns_.label) {
      list_.labels.push_back(label(cells.front()));
      cells = cells.subspan(1);
    }
    for (std::size_t i = 0; i < cells.size(); ++i) list_.numbers.push_back(number(cells[i], columns_.numbers[i]));
  }

  FileList finish() {
    if (list_.lines.empty()) fail(ErrorKind::data, "'{}' names no file", name_);
    list_.paths.finish();
    list_.labels.shrink_to_fit();
    list_.numbers.shrink_to_fit();
    classes_.finish(list_.labels);
    if (!columns_.join) find_repeated();
    list_.classes = classes_.names();
    list_.counts = classes_.counts();
    if (!given_.empty()) number_by_given();
    if (given_.empty() && !first_negative_.empty()) fail_with_negative();
    if (columns_.label && given_.empty() && all_integers_) count_by_integers();
    if (columns_.join) join_rows();
    return std::move(list_);
  }

 private:
  struct Written {
    std::string place;  // the first: "list.csv:2:7"
    bool is_utf8;
  };

  void add_path(const Cell& cell) {
    std::string path = cell.text;
    path.erase(path.find_last_not_of("\r\n") + 1);  // npos + 1 is 0
    if (path.empty()) fail(ErrorKind::data, "{}: column '{}' is empty: expected a file", cell.place(name_), columns_.file);
    if (path.find('\0') != path.npos || path.back() == '/') {
      fail(ErrorKind::data, "{}: column '{}': '{}' names no file", cell.place(name_), columns_.file, path.c_str());
    }
    if (!path.ends_with(columns_.ending)) path += columns_.ending;
    if (columns_.join) {
      const auto [known, is_new] = path_index_.try_emplace(path, static_cast<std::uint32_t>(path_index_.size()));
      path_of_row_.push_back(known->second);
      if (!is_new) return;
    }
    list_.paths.add(path);
    list_.lines.push_back(static_cast<std::uint32_t>(cell.line));
  }

  std::int32_t label(const Cell& cell) {
    const std::string_view name = trimmed(cell.text);  // even if quoted: " cat" and "cat" are the same class
    if (name.empty()) fail(ErrorKind::data, "{}: column '{}' is empty: expected a class", cell.place(name_), *columns_.label);
    const auto integer = parse_integer(name);
    if (integer && *integer < 0 && first_negative_.empty())
      first_negative_ = fmt::format("{}: column '{}': {}", cell.place(name_), *columns_.label, *integer);
    all_integers_ = all_integers_ && integer;
    const std::int32_t number = classes_.add(name);
    if (static_cast<std::size_t>(number) == written_.size() && !given_.empty())
      written_.push_back({cell.place(name_), is_utf8(name)});
    return number;
  }

  float number(const Cell& cell, const std::string& column) const {
    const auto point = parse_number(trimmed(cell.text));
    const auto number = point ? point : parse_with_comma(cell);
    if (!number || !std::isfinite(static_cast<float>(*number))) {
      fail(ErrorKind::data, "{}: column '{}': expected a number{}, found '{}'", cell.place(name_), column,
           cell.text.find(',') == std::string::npos ? "" : " with a decimal point, since a comma may separate thousands",
           line_text(cell.text));
    }
    return static_cast<float>(*number);
  }

  // Such a label often stands for a missing one, but may be a class.
  [[noreturn]] void fail_with_negative() const {
    std::vector<std::string> names = list_.classes;
    if (all_integers_) std::ranges::sort(names, {}, [](const std::string& name) { return *parse_integer(name); });
    fail(ErrorKind::data,
         "{} is not a class number, which begin at 0. If it is a class, {}; if it marks a missing label, remove such lines",
         first_negative_, classes_key(names));
  }

  // Converts labels numbered by name to positions among the given classes, all as names or all as positions.
  void number_by_given() {
    const LabelMeaning meaning = meaning_of_labels(list_.classes, given_);
    if (meaning.unknown) {
      const std::string& label = list_.classes[*meaning.unknown];
      const Written& written = written_[static_cast<std::size_t>(classes_.add(label))];
      fail(ErrorKind::data, "{}: column '{}': '{}' is not among the {} `classes`{}{}{}", written.place, *columns_.label,
           line_text(label), given_.size(), ClassNumbers(given_).hint(label), meaning.advice,
           written.is_utf8 ? "" : "; the list is not UTF-8: encoding = \"cp1252\" reads lists from Windows");
    }
    list_.doubt = meaning.doubt;
    list_.classes = given_;
    list_.counts.assign(given_.size(), 0);
    for (std::int32_t& label : list_.labels) {
      label = meaning.classes[static_cast<std::size_t>(label)];
      ++list_.counts[static_cast<std::size_t>(label)];
    }
  }

  // Labels were numbered by name ("10" before "9"); here they become their integer values.
  void count_by_integers() {
    std::vector<std::int32_t> values;
    for (const std::string& name : list_.classes) {
      const std::int64_t value = *parse_integer(name);
      if (value >= kMaxClasses) {
        fail(ErrorKind::data, "'{}': column '{}' has the label {}: integers are class numbers, expected less than {}", name_,
             *columns_.label, value, kMaxClasses);
      }
      values.push_back(static_cast<std::int32_t>(value));
    }
    for (std::int32_t& label : list_.labels) label = values[static_cast<std::size_t>(label)];
    const auto classes = static_cast<std::size_t>(*std::max_element(values.begin(), values.end())) + 1;
    list_.classes.clear();
    for (std::size_t label = 0; label < classes; ++label) list_.classes.push_back(std::to_string(label));
    list_.counts.assign(classes, 0);
    for (const std::int32_t label : list_.labels) ++list_.counts[static_cast<std::size_t>(label)];
  }

  // Finds files that are listed twice, with one class or two.
  void find_repeated() {
    struct Named {
      std::uint64_t path;  // hash
      std::uint32_t row;
    };
    std::vector<Named> order;
    for (std::uint32_t row = 0; row < list_.paths.size(); ++row) order.push_back({hash_text(list_.paths[row]), row});
    std::stable_sort(order.begin(), order.end(), [](const Named& a, const Named& b) { return a.path < b.path; });
    struct Again {
      std::uint64_t count = 0;
      std::size_t first = 0;
      void add(std::size_t at) {
        if (count++ == 0) first = at;
      }
    } again, differing;
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i].path != order[i - 1].path) continue;
      again.add(i);
      if (columns_.label && list_.labels[order[i].row] != list_.labels[order[i - 1].row]) differing.add(i);
    }
    const auto text = [&](const Again& of, const char* how) {
      if (of.count == 0) return std::string();
      const std::uint32_t a = order[of.first - 1].row, b = order[of.first].row;
      return fmt::format("{} file{} of '{}' {} listed again{}, such as '{}' in lines {} and {}", of.count,
                         of.count == 1 ? "" : "s", name_, of.count == 1 ? "is" : "are", how, line_text(list_.paths[a]),
                         list_.lines[a], list_.lines[b]);
    };
    list_.repeated = text(again, "");
    list_.contradictions = text(differing, " with another label");
  }

  // A path's rows may be anywhere in the list; they keep their order.
  void join_rows() {
    const std::size_t paths = list_.lines.size(), label = columns_.label ? 1 : 0, width = columns_.numbers.size() + label;
    list_.rows.assign(paths + 1, 0);
    for (const std::uint32_t path : path_of_row_) ++list_.rows[path + 1];
    for (std::size_t path = 0; path < paths; ++path) list_.rows[path + 1] += list_.rows[path];
    std::vector<std::uint64_t> next(list_.rows.begin(), list_.rows.end() - 1);
    std::vector<float> joined(path_of_row_.size() * width);
    for (std::size_t row = 0; row < path_of_row_.size(); ++row) {
      float* out = joined.data() + next[path_of_row_[row]]++ * width;
      if (label > 0) *out++ = static_cast<float>(list_.labels[row]);
      std::copy_n(list_.numbers.data() + row * (width - label), width - label, out);
    }
    list_.numbers = std::move(joined);
    list_.labels = {};
  }

  const std::string& name_;
  const ListColumns& columns_;
  const std::vector<std::string>& given_;
  ClassNumbers classes_;          // those in the list
  std::vector<Written> written_;  // by label, in the order of the list; empty unless classes are given
  FileList list_;
  bool all_integers_ = true;
  std::string first_negative_;                                 // place and value: "list.csv:2:7: column 'label': -1"
  std::unordered_map<std::string, std::uint32_t> path_index_;  // used when joined
  std::vector<std::uint32_t> path_of_row_;
};

}  // namespace

std::string classes_key(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNamed = 20;
  if (names.size() > kMaxNamed) return "name them all in `classes`";
  const std::string list = line_text(fmt::format("[\"{}\"]", fmt::join(names, "\", \"")));
  return fmt::format("set classes = {0}, or with data.path --set 'data.classes={0}'", list);
}

FileList read_list(std::string_view text, const TableFormat& format, const std::string& name, const ListColumns& columns,
                   const std::vector<std::string>& classes) {
  std::vector<std::string> wanted{columns.file};
  if (columns.label) wanted.push_back(*columns.label);
  wanted.insert(wanted.end(), columns.numbers.begin(), columns.numbers.end());
  ListBuilder builder(name, columns, classes);
  const std::vector<std::string> all =
      read_table(text, format, name, wanted, [&builder](std::span<const Cell> cells) { builder.add(cells); });
  FileList list = builder.finish();
  list.part_column = part_column(text, format, name, all, wanted);
  return list;
}

}  // namespace millrace
