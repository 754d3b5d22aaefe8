// The table [observe], checked: the run's observers.
#pragma once

#include <vector>

#include "config/plan.h"

namespace millrace {

// `observe`: the table, or null. Its members are observers' tables; false disables one, true uses its defaults. Observers enabled
// by default need none. Mistakes go to `errors`.
std::vector<ObserverPlan> plan_observers(const Value* observe, const Registry& registry, Diagnostics& errors);

}  // namespace millrace
