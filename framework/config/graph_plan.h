// A graph's table, checked: its stages and their connections.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace millrace {

// Checks [name] and everything below it. Mistakes go to `errors`; the plan is complete only if there are none.
GraphPlan plan_graph(const Member& graph, const Registry& registry, Diagnostics& errors);

// The file or folder in the stage's key, written or by default; "": none.
std::string place_in(const StagePlan& stage, const char* key);

// "; nearest is 'x'", or "" if no candidate is near.
std::string nearest_clause(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace millrace
