// Files that were missing when a graph's samples were listed, compared with its budget of bad samples.
#pragma once

#include "millrace/util/bad_sample_budget.h"
#include "stages/build.h"

namespace millrace {

// Null if the graph's batches have no budget. Owned by `build`.
HasBadSampleBudget* budget_of(const GraphBuild& build);

// Throws Error(data) if an epoch lacks more files than its batches' budget of bad samples: the run would end within its first
// epoch.
void require_files(const GraphBuild& build);

}  // namespace millrace
