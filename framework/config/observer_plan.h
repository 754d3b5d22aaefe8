// The table [observe], checked: who listens to the run.
#pragma once

#include <vector>

#include "config/plan.h"

namespace millrace {

// `observe`: the table, or null. Its members are observers' tables; false leaves one out, true takes its defaults. Those that
// listen by default need none. Mistakes go to `errors`.
std::vector<ObserverPlan> plan_observers(const Value* observe, const Registry& registry, Diagnostics& errors);

}  // namespace millrace
