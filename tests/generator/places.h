// Positions in a document, used to remove values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace::generator {

// From the root: a key of a table, or an index in a list.
struct PlaceStep {
  std::string key;  // empty: an index
  std::size_t number = 0;
};
using Place = std::vector<PlaceStep>;

std::vector<Place> places(const Value& document);  // everything that can be removed, the largest parts first
void take_out(Value& document, const Place& place);
std::string to_string(const Place& place);  // "train.augment.fill[0]"

// The value in this line and column of the document as written by to_toml(); else the one in the line.
std::optional<Place> place_at(const Value& document, int line, int column);

}  // namespace millrace::generator
