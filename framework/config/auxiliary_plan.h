// Outputs of the network that losses are measured at beside its result, as stages name them in `auxiliary`.
#pragma once

#include <memory>

#include "config/plan.h"

namespace millrace {

// The network with the parameters of layers that lead to no loss marked as unused. An output that no stage may name is a mistake,
// which goes to `errors`.
std::shared_ptr<const Network> plan_auxiliary(std::shared_ptr<const Network> network, const std::vector<GraphPlan>& graphs,
                                              Diagnostics& errors);

}  // namespace millrace
