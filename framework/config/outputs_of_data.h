// The number of outputs that a network needs for its training data.
#pragma once

#include <cstdint>

#include "config/plan.h"

namespace millrace {

// The number for the graph's source: its columns of numbers, or else its classes, for which it lists its samples. 0: it has
// neither, or cannot be opened, which is reported in detail when the run lists its data.
std::int64_t outputs_of_data(const GraphPlan& graph, const Registry& registry);

}  // namespace millrace
