// What differs between the pipeline that a checkpoint is of and the one that is to go on with it.
#pragma once

#include <string>
#include <vector>

#include "millrace/value.h"

namespace millrace {

struct Difference {
  std::string key;        // "train.batch.size"
  std::string then, now;  // as they are written; "" where it is not
};

// Of two resolved files, in [run], [network], [stop] and the graphs. Left out are keys that cannot change a run's results behind
// a checkpoint, such as run.threads, and devices and precision, which are compared as they were chosen.
std::vector<Difference> differences(const Value& then, const Value& now);

// Of two documents, such as networks: everything in them, lists of tables entry by entry, "network.use.layers[3].probability"
// with `key` "network.use". A list that has become longer or shorter is one difference.
std::vector<Difference> document_differences(const std::string& key, const Value& then, const Value& now);

// Whether `key` is one of `allowed` or stands in a table that is.
bool is_allowed(const std::string& key, const std::vector<std::string>& allowed);

}  // namespace millrace
