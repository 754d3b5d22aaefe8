// Whether a run can do what [run] on_nan says when its numbers are not finite.
#pragma once

#include "config/plan.h"
#include "stages/build.h"

namespace millrace {

struct NanSetting {
  bool has_checkpoints = false;
  int processes = 1;
};

// Throws Error(usage) that says what the file lacks: "rollback" takes checkpoints and one process, "skip" a stage that leaves out
// updates. `main`: with all its stages.
void check_on_nan(const Pipeline& pipeline, const GraphBuild& main, const NanSetting& setting);

}  // namespace millrace
