// The ${...} of the network language: finds references, and binds variables of blocks and networks.
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

// All variables that texts in a value refer to, in order: "a" for ${a.b}. Excludes environment variables.
std::vector<Reference> references(const Value& value);

// The value with every ${...} in it replaced, at any depth. `variables`: a table.
Value resolve(const Value& value, const Value& variables, Diagnostics& errors);

// Adds to `variables` the entries of `defaults` (a table) that `given` (a table) lacks, and then `given`. Defaults may refer to
// each other, to `given` and to earlier `variables`.
void bind(Value& variables, const Value& given, const Value& defaults, Diagnostics& errors);

// Adds the mistake "<owner> has no <what> '<name>'" with the nearest existing name.
void report_unknown_name(const std::string& owner, const std::string& what, const std::string& name,
                         const std::vector<std::string>& names, const Position& at, Diagnostics& errors);

}  // namespace millrace
