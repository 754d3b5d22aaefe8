// Sums and products of numbers, for texts such as "(${width} + 1) * 4". Pure; see expression.h for the rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace {

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

}  // namespace millrace
