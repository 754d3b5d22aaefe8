// A graph's table, checked: its stages and how they are connected.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace millrace {

// Checks [name] and everything below it. Mistakes go to `errors`; the plan is complete only when there are none.
GraphPlan plan_graph(const Member& graph, const Registry& registry, Diagnostics& errors);

// Finds the edges of plan.stages by the rule in plan.h. `from[i]`: what stage i's table says, or null.
void connect(GraphPlan& plan, const std::vector<const Value*>& from, const Registry& registry, Diagnostics& errors);

// What the stage's key names, written or by default; "": nothing.
std::string place_in(const StagePlan& stage, const char* key);

// "; nearest is 'x'", or nothing when no candidate is near.
std::string nearest_clause(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace millrace
