// Finds optimizer parameters that have no effect in a run.
#pragma once

#include <string>
#include <vector>

#include "optimizer.h"

namespace millrace {

// A sentence for each. These are not errors: the run may be a short trial of a long recipe, or have frozen layers. `groups`: null
// without a network.
std::vector<std::string> without_effect(const OptimizerStage::Params& params, const Schedule& schedule, const Groups* groups,
                                        const StepContext& context);

}  // namespace millrace
