// Differences between a checkpoint's pipeline and the one that resumes from it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/detail/value.h"

namespace millrace {

struct Difference {
  std::string key;        // "train.batch.size"
  std::string then, now;  // as written; "" if missing
};

// The keys of [run], of [network] and of the graphs' stages with parameters that may_change(): "run.threads",
// "train.batch.buffers".
std::set<std::string> keys_that_may_change(const Pipeline& pipeline);

// Differences of two resolved files in [run], [network], [stop], [plateau] and the graphs, except for keys in `left_out`.
std::vector<Difference> differences(const Value& then, const Value& now, const std::set<std::string>& left_out = {});

// All differences of two documents, such as networks, with lists of tables compared entry by entry:
// "network.use.layers[3].probability" with `key` "network.use". A change of a list's length is one difference.
std::vector<Difference> document_differences(const std::string& key, const Value& then, const Value& now);

// Whether `key` is one of `allowed` or in a table that is.
bool is_allowed(const std::string& key, const std::vector<std::string>& allowed);

}  // namespace millrace
