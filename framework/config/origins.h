// Where values come from that a reference has brought into a text: a base file says `size = "${image.side}"`, and another file or
// --set says what the side is. A mistake in the size is a mistake there.
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
  // `is_later`: which of two texts has the last word; see later_texts().
  explicit Origins(Overrules is_later) : is_later_(std::move(is_later)) {}

  // The text at `text` was made with the value at `from`. Of several, the last word counts.
  void note(const Position& from, const Position& text);

  // Moves values to where they come from. A list with such a value in it moves too; tables stay where they are written.
  void apply(Value& value) const;

 private:
  using Key = std::tuple<std::string, int, int>;
  static Key key(const Position& at) { return {at.file ? *at.file : std::string(), at.line, at.column}; }

  Overrules is_later_;
  std::map<Key, Position> from_;
};

}  // namespace millrace
