// What differs between the pipeline that a checkpoint is of and the one that is to go on with it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/detail/value.h"

namespace millrace {

struct Difference {
  std::string key;        // "train.batch.size"
  std::string then, now;  // as they are written; "" where it is not
};

// The keys of [run], of [network] and of the graphs' stages whose parameters may_change(): "run.threads", "train.batch.buffers".
std::set<std::string> keys_that_may_change(const Pipeline& pipeline);

// Those of two resolved files, in [run], [network], [stop], [plateau] and the graphs, without the keys `left_out`.
std::vector<Difference> differences(const Value& then, const Value& now, const std::set<std::string>& left_out = {});

// Those of two documents, such as networks: everything in them, lists of tables entry by entry,
// "network.use.layers[3].probability" with `key` "network.use". A list that has become longer or shorter is one difference.
std::vector<Difference> document_differences(const std::string& key, const Value& then, const Value& now);

// Whether `key` is one of `allowed` or stands in a table that is.
bool is_allowed(const std::string& key, const std::vector<std::string>& allowed);

}  // namespace millrace
