// Files that were missing when a graph's samples were listed, beside the bad samples that it bears.
#pragma once

#include "millrace/util/bad_sample_budget.h"
#include "stages/build.h"

namespace millrace {

// Null: the graph's batches know no budget. Belongs to `build`.
HasBadSampleBudget* budget_of(const GraphBuild& build);

// Throws Error(data) where an epoch has more samples without a file than its batches' budget of bad samples: the run would end
// within its first epoch.
void require_files(const GraphBuild& build);

}  // namespace millrace
