// Origins of values that a reference brought into a text: a base file has `size = "${image.side}"`, and another file or --set
// gives the side. A mistake in the size is a mistake there.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

class Origins {
 public:
  // `is_later`: whether a text overrules another; see later_texts().
  explicit Origins(Overrules is_later) : is_later_(std::move(is_later)) {}

  // Notes that the text at `text` was made with the value at `from`. With several, the overruling one counts.
  void note(const Position& from, const Position& text);

  // Moves values to their origins. A list with such a value in it moves too; tables stay where they are written.
  void apply(Value& value) const;

 private:
  using Key = std::tuple<std::string, int, int>;
  static Key key(const Position& at) { return {at.file ? *at.file : std::string(), at.line, at.column}; }

  Overrules is_later_;
  std::map<Key, Position> from_;
};

}  // namespace millrace
