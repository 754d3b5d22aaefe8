// Tables of keys, drawn from what their reader declares: types, ranges, choices, defaults, what excludes or needs what.
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

// What declarations do not say: which texts, sizes and lists mean something here, such as the path of a source. By "owner.key"
// or, for every owner, "*.key". A meaning that gives nothing leaves the key out.
using Meaning = std::function<std::optional<Value>(Draw&)>;
using Meanings = std::map<std::string, Meaning>;

template <class T>
const T& pick(Draw& draw, const std::vector<T>& list) {
  return list[static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(list.size()) - 1))];
}

Value list_of(const std::vector<std::string>& texts);
Value pair_of(std::int64_t first, std::int64_t second);  // [first, second]

// `share`: the chance of each key that is not required. A required key for which no value can be drawn is left out, so that the
// table is refused.
Value drawn_table(const std::vector<ParamInfo>& params, const Value& defaults, const std::string& owner, const Meanings& meanings,
                  double share, Draw& draw);

// Every key that drawn_table() could write, with those of tables: "augment.translate.x".
void list_keys(const std::vector<ParamInfo>& params, const std::string& owner, std::vector<std::string>& keys);

}  // namespace millrace::generator
