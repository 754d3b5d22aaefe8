// --epochs, --batch, --lr and --name: short forms of --set for the most frequent changes.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace millrace {

// As written; "" if not given.
struct ShortOptions {
  std::string epochs, batch, rate, name;

  std::string first() const;  // the first given one, "--epochs"; "" if none
};

// The equivalent values for --set: of [run], and of the only stage of `graph` that makes batches or has a learning rate. Throws
// Error(usage) for an invalid value, and if there is no such stage or more than one.
std::vector<std::string> overrides_of(const ShortOptions& options, const GraphPlan& graph);

}  // namespace millrace
