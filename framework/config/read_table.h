// Reads a top-level table such as [stop] into its struct.
#pragma once

#include <optional>
#include <string>

#include "millrace/params.h"

namespace millrace {

// Empty for a table with mistakes, which go to `errors`. `owner`: the table's name in messages, "[stop]".
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
