// The metrics that [stop], [plateau] and run.best name.
#pragma once

#include <memory>
#include <vector>

#include "config/plan.h"
#include "stages/build.h"

namespace millrace {

// Throws Error(usage) where the graph is among `builds` and does not report the figure. REQUIRES: their stages are made.
void require_figure(const FigurePlan& figure, const std::vector<std::unique_ptr<GraphBuild>>& builds);

}  // namespace millrace
