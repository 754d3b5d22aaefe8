#include "toml/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/util/text.h"
#include "toml/limits.h"

namespace millrace {

namespace {

// Receives an expression piece by piece from left to right, and refuses pieces that cannot belong to one.
class Arithmetic {
 public:
  bool add_operand(const Value& value);  // false: not a number
  bool add_text(std::string_view text);  // numbers, operators, parentheses and blanks; false: something else

  // Empty if the pieces do not form an expression. A division by zero or an overflow is a `mistake`.
  std::optional<Value> result(std::string& mistake);

 private:
  struct Token {
    char symbol = 0;  // 0: an operand
    Value operand;
  };
  bool next_is(char symbol) const { return at_ < tokens_.size() && tokens_[at_].symbol == symbol; }
  std::optional<Value> sum();
  std::optional<Value> product();
  std::optional<Value> factor();
  Value apply(char symbol, const Value& a, const Value& b);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;  // of parentheses and signs
  bool too_deep_ = false;
  std::string mistake_;
};

constexpr int kDeepestParentheses = 100;
constexpr char kWhole = 'w';  // the symbol for "//"

// Counts one level of nesting during its lifetime.
class Level {
 public:
  explicit Level(int& depth) : depth_(++depth) {}
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& depth_;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes and returns the number at the front of `text`.
Value take_number(std::string_view& text) {
  const char* end = text.data() + text.size();
  double real = 0;
  const char* after = std::from_chars(text.data(), end, real).ptr;
  const std::string_view digits(text.data(), static_cast<std::size_t>(after - text.data()));
  text.remove_prefix(digits.size());
  std::int64_t integer = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), integer);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  return whole ? Value(integer) : Value(real);
}

bool Arithmetic::add_operand(const Value& value) {
  if (!value.is_number()) return false;
  tokens_.push_back({0, value});
  return true;
}

bool Arithmetic::add_text(std::string_view text) {
  const std::string_view all = text;
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t index = all.size() - text.size();
    if (is_blank(c)) {
      text.remove_prefix(1);
    } else if (is_digit(c) || (c == '.' && text.size() > 1 && is_digit(text[1]))) {
      tokens_.push_back({0, take_number(text)});
    } else if (std::string_view("+-*/()").find(c) != std::string_view::npos) {
      const bool after_operand = !tokens_.empty() && (tokens_.back().symbol == 0 || tokens_.back().symbol == ')');
      const std::size_t length = text.starts_with("//") ? 2 : 1, end = index + length;
      const bool between_blanks = index > 0 && is_blank(all[index - 1]) && end < all.size() && is_blank(all[end]);
      if ((c == '/' || (c == '-' && after_operand)) && !between_blanks) return false;
      tokens_.push_back({length == 2 ? kWhole : c, Value()});
      text.remove_prefix(length);
    } else {
      return false;
    }
  }
  return true;
}

std::optional<Value> Arithmetic::result(std::string& mistake) {
  at_ = 0;
  depth_ = 0;
  too_deep_ = false;
  mistake_.clear();
  auto value = sum();
  if (!value || at_ != tokens_.size()) return std::nullopt;
  mistake = mistake_;
  return value;
}

std::optional<Value> Arithmetic::sum() {
  auto left = product();
  while (left && (next_is('+') || next_is('-'))) {
    const char symbol = tokens_[at_++].symbol;
    const auto right = product();
    if (!right) return std::nullopt;
    left = apply(symbol, *left, *right);
  }
  return left;
}

std::optional<Value> Arithmetic::product() {
  auto left = factor();
  while (left && (next_is('*') || next_is('/') || next_is(kWhole))) {
    const char symbol = tokens_[at_++].symbol;
    const auto right = factor();
    if (!right) return std::nullopt;
    left = apply(symbol, *left, *right);
  }
  return left;
}

std::optional<Value> Arithmetic::factor() {
  if (at_ == tokens_.size()) return std::nullopt;
  const Level level(depth_);
  if (depth_ > kDeepestParentheses) {
    too_deep_ = true;
    at_ = tokens_.size();
    mistake_ = fmt::format("parentheses and signs are nested more than {} deep", kDeepestParentheses);
    return Value(0);
  }
  const Token& token = tokens_[at_++];
  if (token.symbol == 0) return token.operand;
  if (token.symbol == '-') {
    const auto operand = factor();
    return operand ? std::optional(apply('-', Value(0), *operand)) : std::nullopt;
  }
  if (token.symbol != '(') return std::nullopt;
  auto inner = sum();
  if (too_deep_) return inner;
  if (!inner || !next_is(')')) return std::nullopt;
  ++at_;
  return inner;
}

Value Arithmetic::apply(char symbol, const Value& a, const Value& b) {
  if ((symbol == '/' || symbol == kWhole) && b.number() == 0) {
    mistake_ = "division by zero";
    return a;
  }
  if (a.kind() == Value::Kind::integer && b.kind() == Value::Kind::integer) {
    const std::int64_t x = a.integer(), y = b.integer();
    std::int64_t out = 0;
    bool overflow = false;
    switch (symbol) {
      case '+': overflow = __builtin_add_overflow(x, y, &out); break;
      case '-': overflow = __builtin_sub_overflow(x, y, &out); break;
      case '*': overflow = __builtin_mul_overflow(x, y, &out); break;
      default:
        if (y == -1) {
          overflow = __builtin_sub_overflow(std::int64_t{0}, x, &out);
        } else {
          if (x % y != 0 && symbol == '/') return Value(a.number() / b.number());
          out = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
        }
    }
    if (overflow)
      mistake_ = fmt::format("{} {} {} does not fit in 64 bits", x, symbol == kWhole ? "//" : std::string(1, symbol), y);
    return Value(out);
  }
  switch (symbol) {
    case '+': return Value(a.number() + b.number());
    case '-': return Value(a.number() - b.number());
    case '*': return Value(a.number() * b.number());
    case kWhole: return Value(std::floor(a.number() / b.number()));
    default: return Value(a.number() / b.number());
  }
}

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
    errors.add(at, fmt::format("'${{{}}}' stands for tables and lists that are nested more than {} deep", path, kDeepestNesting));
    return std::nullopt;
  }
  if (scope.keeps_environment()) return Value(fmt::format("${{{}}}", path), at);
  const std::string name = path.substr(kEnvironment.size());
  if (const char* text = std::getenv(name.c_str()); text != nullptr && is_utf8(text)) return Value(text, at);
  const char* const what = std::getenv(name.c_str()) == nullptr ? "not set" : "not UTF-8, as pipeline files must be";
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
      errors_.add(source_.at(), fmt::format("{}: '${{{}}}' is \"auto\", which has no value before the run and cannot be used in "
                                            "arithmetic: write a number there",
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
constexpr std::size_t kMaxInsertedByOne = std::size_t{1} << 16U;

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
      inserted_ += size_of(*next, kMaxInsertedByOne);
      if (inserted_ <= kMaxInsertedByOne) return *next;
      errors.add(at, fmt::format("'${{{}}}': references insert more than {} characters here", path, kMaxInsertedByOne));
      return std::nullopt;
    }
    node = next;
    begin = end + 1;
  }
}

}  // namespace millrace
