// The keys of optimizers in the tables of stages.
#pragma once

#include <string>

#include "millrace/plugin.h"

namespace millrace {

// Checks the optimizer and its keys in the table of a stage that takes one. Mistakes go to `errors`.
void check_optimizer(const StageType& stage, const Value& table, const Registry& registry, const std::string& owner,
                     Diagnostics& errors);

}  // namespace millrace
