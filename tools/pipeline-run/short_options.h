// --epochs, --batch, --lr and --name: short forms of --set for what is changed most often.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace millrace {

// As they were written; "": not given.
struct ShortOptions {
  std::string epochs, batch, rate, name;

  std::string first() const;  // of those that are given, "--epochs"; "": none is
};

// What they mean as --set takes it: of [run], and of the only stage of `graph` that makes batches or has a learning rate. Throws
// Error(usage) for a value that cannot be meant, and where there is no such stage or more than one.
std::vector<std::string> overrides_of(const ShortOptions& options, const GraphPlan& graph);

}  // namespace millrace
