// A top-level table such as [stop], read into its struct.
#pragma once

#include <optional>
#include <string>

#include "millrace/params.h"

namespace millrace {

// Nothing for a table with mistakes, of which `errors` is told. `owner`: the table's name in messages, "[stop]".
template <class Params>
std::optional<Params> read_table(const Value& table, const std::string& owner, Diagnostics& errors) {
  ParamSet<Params> set;
  Params::describe(set);
  const std::size_t before = errors.size();
  Params params = read_struct(set, table, owner, errors);
  if (errors.size() != before) return std::nullopt;
  return params;
}

}  // namespace millrace
