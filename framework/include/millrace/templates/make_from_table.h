// Makes objects from tables of parameters. Separate from type_description.h, which device compilers read too: they cannot compile
// fmt.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "millrace/params.h"

namespace millrace::detail {

// Returns make(parameters of the table). Mistakes in the table go to `errors`, as does an Error of `make`, with the table's
// position; the result is then null.
template <class Params, class Make>
auto make_from_table(const ParamSet<Params>& set, const Value& table, const std::string& owner, Diagnostics& errors,
                     const Make& make) -> decltype(make(std::declval<const Params&>())) {
  const std::size_t before = errors.size();
  const Params params = read_struct(set, table, owner, errors);
  if (errors.size() != before) return nullptr;
  try {
    return make(params);
  } catch (const Error& error) {
    errors.add(table.at(), owner + ": " + error.message());
    return nullptr;
  }
}

}  // namespace millrace::detail
