// Outputs at which losses are measured in addition to the network's result, from the stages' `auxiliary`.
#pragma once

#include <memory>

#include "config/plan.h"

namespace millrace {

// The network with the parameters of layers that no loss depends on marked as unused. Names of invalid outputs are reported in
// `errors`.
std::shared_ptr<const Network> plan_auxiliary(std::shared_ptr<const Network> network, const std::vector<GraphPlan>& graphs,
                                              Diagnostics& errors);

}  // namespace millrace
