// Tables of keys, drawn from their declarations: types, ranges, choices, defaults, exclusions and requirements.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/random.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace::generator {

// Meanings that declarations lack: texts, sizes and lists that are valid here, such as the path of a source. By "owner.key" or,
// for every owner, "*.key". A meaning that returns nothing leaves the key out.
using Meaning = std::function<std::optional<Value>(Draw&)>;
using Meanings = std::map<std::string, Meaning>;

template <class T>
const T& pick(Draw& draw, const std::vector<T>& list) {
  return list[static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(list.size()) - 1))];
}

Value list_of(const std::vector<std::string>& texts);
Value pair_of(std::int64_t first, std::int64_t second);  // [first, second]

// `share`: the probability of each optional key. A required key without a possible value is left out, so that the table is
// refused.
Value drawn_table(const std::vector<ParamInfo>& params, const Value& defaults, const std::string& owner, const Meanings& meanings,
                  double share, Draw& draw);

// Every key that drawn_table() can write, with those of tables: "augment.translate.x".
void list_keys(const std::vector<ParamInfo>& params, const std::string& owner, std::vector<std::string>& keys);

}  // namespace millrace::generator
