// The ${...} of the network language: what a text refers to, and how a block's or a network's variables come together.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

struct Reference {
  std::string name;
  Position at;
};

// Every variable that a value refers to, in the texts inside it, in order: of ${a.b} it is "a". Not those of the environment.
std::vector<Reference> references(const Value& value);

// The value with every ${...} in it replaced, at any depth. `variables`: a table.
Value resolve(const Value& value, const Value& variables, Diagnostics& errors);

// Adds to `variables` those of `defaults` (a table) that `given` (a table) does not have, and then `given`. Defaults may refer to
// each other, to `given` and to what `variables` held before.
void bind(Value& variables, const Value& given, const Value& defaults, Diagnostics& errors);

// Adds the mistake "<owner> has no <what> '<name>'" with the nearest of the names there are.
void report_unknown_name(const std::string& owner, const std::string& what, const std::string& name,
                         const std::vector<std::string>& names, const Position& at, Diagnostics& errors);

}  // namespace millrace
