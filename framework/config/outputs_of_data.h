// How many outputs a network needs for the data that it is trained on.
#pragma once

#include <cstdint>

#include "config/plan.h"

namespace millrace {

// How many the graph's source asks for: as many as it reads columns of numbers, or else as it has classes, for which it lists its
// samples. 0: it has neither, or cannot be opened, which is said with more words when the run lists its data.
std::int64_t outputs_of_data(const GraphPlan& graph, const Registry& registry);

}  // namespace millrace
