// Places in a document, to take something out of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace::generator {

// From the root: a key of a table, or a number in a list.
struct PlaceStep {
  std::string key;  // empty: a number
  std::size_t number = 0;
};
using Place = std::vector<PlaceStep>;

std::vector<Place> places(const Value& document);  // everything that can be taken out: what holds much first
void take_out(Value& document, const Place& place);
std::string to_string(const Place& place);  // "train.augment.fill[0]"

// What stands in this line and column of the document as to_toml() writes it; else what stands in the line.
std::optional<Place> place_at(const Value& document, int line, int column);

}  // namespace millrace::generator
