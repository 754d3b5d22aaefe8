// Finds settings that have no effect on a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/plan.h"

namespace millrace {

struct RunLength {
  bool trains = true;
  std::uint64_t steps = 0, steps_per_epoch = 1;
};

// A sentence for each, with its position. These are not errors: the run may be a short trial of a long recipe.
std::vector<std::string> without_effect(const Pipeline& pipeline, const RunLength& run);

// Message for initial weights that were added to the file after the run began, and are ignored because it resumes with its
// checkpoint's. `begun`: the checkpoint's file. Else "".
std::string weights_without_effect(const Pipeline& pipeline, const Value& begun);

}  // namespace millrace
