#include "config/arithmetic.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>

namespace millrace {

namespace {

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

}  // namespace

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
    mistake_ = fmt::format("parentheses and signs stand in each other more than {} deep", kDeepestParentheses);
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

}  // namespace millrace
