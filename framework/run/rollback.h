// A run that goes back to a checkpoint when its numbers are not finite.
#pragma once

#include <functional>

#include "run/run.h"

namespace millrace {

// Runs the pipeline, and with [run] on_nan = "rollback" again from the newest checkpoint, or from an older one where that did not
// help, each time with a smaller learning rate, nan_limit times at most. Each try is prepared by itself, and its observers go on
// with the files of the run. `prepared` is called with each of them before it runs. Throws what the last one throws.
RunResult run_with_rollbacks(const Pipeline& pipeline, const Registry& registry, RunOptions options,
                             const std::function<void(PreparedRun&)>& prepared = {});

}  // namespace millrace
