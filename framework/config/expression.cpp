#include "config/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "config/arithmetic.h"
#include "config/limits.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

struct Piece {
  bool reference = false;
  std::string text;  // for a reference: its path
};

// Splits at references. Empty if one is not closed.
std::optional<std::vector<Piece>> split(std::string_view text) {
  std::vector<Piece> pieces;
  std::string plain;
  while (!text.empty()) {
    if (text.starts_with("$${")) {
      plain += "${";
      text.remove_prefix(3);
    } else if (text.starts_with("${")) {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) return std::nullopt;
      if (!plain.empty()) pieces.push_back({false, std::exchange(plain, {})});
      pieces.push_back({true, std::string(text.substr(2, end - 2))});
      text.remove_prefix(end + 1);
    } else {
      plain += text.front();
      text.remove_prefix(1);
    }
  }
  if (!plain.empty()) pieces.push_back({false, plain});
  return pieces;
}

// Shortened for messages.
std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 200;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

constexpr std::string_view kEnvironment = "env.";

// An environment variable's text as a number or truth value, if it reads as one.
Value as_scalar(const Value& value) {
  const std::string& text = value.text();
  if (text == "true" || text == "false") return Value(text == "true", value.at());
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto r = std::from_chars(text.data(), end, integer); r.ec == std::errc() && r.ptr == end)
    return Value(integer, value.at());
  double real = 0;
  if (const auto r = std::from_chars(text.data(), end, real); r.ec == std::errc() && r.ptr == end) return Value(real, value.at());
  return value;
}

std::optional<Value> find(const std::string& path, const Position& at, const Scope& scope, Diagnostics& errors) {
  if (!path.starts_with(kEnvironment)) {
    auto value = scope.find(path, at, errors);
    if (!value || !is_deeper(*value, kDeepestNesting)) return value;
    errors.add(at, fmt::format("'${{{}}}' stands for tables and lists in each other, more than {} deep", path, kDeepestNesting));
    return std::nullopt;
  }
  if (scope.keeps_environment()) return Value(fmt::format("${{{}}}", path), at);
  const std::string name = path.substr(kEnvironment.size());
  if (const char* text = std::getenv(name.c_str()); text != nullptr && is_utf8(text)) return Value(text, at);
  const char* const what = std::getenv(name.c_str()) == nullptr ? "not set" : "no UTF-8, and pipeline files hold nothing else";
  errors.add(at, fmt::format("'${{{}}}': the environment variable {} is {}", path, name, what));
  return std::nullopt;
}

class TextEvaluation {
 public:
  TextEvaluation(const Value& source, const Scope& scope, Diagnostics& errors)
      : source_(source), scope_(scope), errors_(errors) {}

  Value run() {
    auto pieces = split(source_.text());
    if (!pieces) {
      errors_.add(source_.at(), fmt::format("{} has a '${{' without its '}}'", to_toml(source_)));
      return source_;
    }
    pieces_ = std::move(*pieces);
    if (!look_up()) return source_;
    if (pieces_.size() == 1 && pieces_[0].reference) return placed(scalar(0));
    if (auto number = calculate()) return placed(std::move(*number));
    return insert();
  }

 private:
  bool look_up() {
    bool good = true;
    for (const Piece& piece : pieces_) {
      values_.emplace_back();
      if (!piece.reference) continue;
      if (auto value = find(piece.text, source_.at(), scope_, errors_)) {
        scope_.was_made_with(value->at(), source_.at());
        values_.back() = std::move(*value);
      } else {
        good = false;
      }
    }
    return good;
  }

  Value scalar(std::size_t piece) const {
    return pieces_[piece].text.starts_with(kEnvironment) ? as_scalar(values_[piece]) : values_[piece];
  }

  // A number that the run will choose when it begins.
  bool is_open(std::size_t piece) const {
    const Value& value = values_[piece];
    return pieces_[piece].reference && value.kind() == Value::Kind::text && value.text() == "auto";
  }

  // Rule 2: the result, if this is arithmetic.
  std::optional<Value> calculate() {
    Arithmetic arithmetic;
    bool references = false;
    std::optional<std::size_t> open;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      references = references || pieces_[i].reference;
      if (is_open(i)) open = i;
      const Value operand = is_open(i) ? Value(1) : pieces_[i].reference ? scalar(i) : Value();
      const bool numeric = pieces_[i].reference ? arithmetic.add_operand(operand) : arithmetic.add_text(pieces_[i].text);
      if (!numeric) return std::nullopt;
    }
    if (!references) return std::nullopt;
    std::string mistake;
    auto result = arithmetic.result(mistake);
    if (!mistake.empty()) {
      errors_.add(source_.at(), fmt::format("{}: {}", shortened(to_toml(source_)), mistake));
      return source_;
    }
    if (result && open) {
      errors_.add(source_.at(),
                  fmt::format("{}: '${{{}}}' is \"auto\", which is no number before the run and cannot be calculated "
                              "with: write a number there",
                              to_toml(source_), pieces_[*open].text));
      return source_;
    }
    return result;
  }

  // Rule 3.
  Value insert() {
    std::string text;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Value& value = values_[i];
      if (!pieces_[i].reference) {
        text += pieces_[i].text;
      } else if (value.kind() == Value::Kind::text) {
        text += value.text();
      } else if (value.kind() == Value::Kind::array || value.kind() == Value::Kind::table) {
        errors_.add(source_.at(), fmt::format("'${{{}}}' is {}, which cannot be a part of the text {}", pieces_[i].text,
                                              to_string(value.kind()), to_toml(source_)));
        return source_;
      } else {
        text += to_toml(value);
      }
    }
    return Value(std::move(text), source_.at());
  }

  Value placed(Value value) const {
    value.set_position(source_.at());
    return value;
  }

  const Value& source_;
  const Scope& scope_;
  Diagnostics& errors_;
  std::vector<Piece> pieces_;
  std::vector<Value> values_;  // for references
};

}  // namespace

bool has_reference(std::string_view text) { return text.find("${") != std::string_view::npos; }

Value evaluate(const Value& value, const Scope& scope, Diagnostics& errors) {
  switch (value.kind()) {
    case Value::Kind::text: return has_reference(value.text()) ? TextEvaluation(value, scope, errors).run() : value;
    case Value::Kind::array: {
      Array list;
      for (const Value& element : value.array()) list.push_back(evaluate(element, scope, errors));
      return Value(std::move(list), value.at());
    }
    case Value::Kind::table: {
      Table table;
      for (const Member& member : value.table()) table.push_back({member.key, member.at, evaluate(member.value, scope, errors)});
      return Value(std::move(table), value.at());
    }
    default: return value;
  }
}

namespace {

// The paths of all keys in a table: "data", "data.root".
void collect_paths(const Value& table, const std::string& prefix, std::vector<std::string>& paths) {
  if (table.kind() != Value::Kind::table) return;
  for (const Member& member : table.table()) {
    paths.push_back(prefix + member.key);
    collect_paths(member.value, paths.back() + ".", paths);
  }
}

}  // namespace

void report_unknown_reference(std::string_view path, const Value& root, const Value& parent, std::string_view parent_path,
                              const Position& at, Diagnostics& errors) {
  std::vector<std::string> names;
  if (errors.names_nearest()) {
    collect_paths(parent, parent_path.empty() ? std::string() : fmt::format("{}.", parent_path), names);
    collect_paths(root, "", names);
  }
  std::string message = fmt::format("'${{{}}}' refers to nothing", path);
  if (const auto nearest = nearest_name(path, names)) message += fmt::format("; nearest is '${{{}}}'", *nearest);
  errors.add(at, std::move(message));
}

// Limit for one value with references; it stops chains of variables that double each other.
constexpr std::size_t kMostInsertedByOne = std::size_t{1} << 16U;

std::optional<Value> TableScope::find(std::string_view path, const Position& at, Diagnostics& errors) const {
  const Value* node = &table_;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const Value* next = node->find(path.substr(begin, end - begin));
    if (!next) {
      report_unknown_reference(path, table_, *node, path.substr(0, begin == 0 ? 0 : begin - 1), at, errors);
      return std::nullopt;
    }
    if (end == path.size()) {
      inserted_ += size_of(*next, kMostInsertedByOne);
      if (inserted_ <= kMostInsertedByOne) return *next;
      errors.add(at, fmt::format("'${{{}}}': references insert more than {} characters here", path, kMostInsertedByOne));
      return std::nullopt;
    }
    node = next;
    begin = end + 1;
  }
}

}  // namespace millrace
