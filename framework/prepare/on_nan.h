// Whether a run supports its [run] on_nan.
#pragma once

#include "config/plan.h"
#include "stages/build.h"

namespace millrace {

struct NanSetting {
  bool has_checkpoints = false;
  int processes = 1;
};

// Throws Error(usage) with the missing requirement: "rollback" needs checkpoints and one process, "skip" a stage that skips
// updates. `main`: with all its stages.
void check_on_nan(const Pipeline& pipeline, const GraphBuild& main, const NanSetting& setting);

}  // namespace millrace
