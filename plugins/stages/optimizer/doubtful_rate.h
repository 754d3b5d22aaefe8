// Detects learning rates that are wrong by orders of magnitude: a misplaced point, or the rate of another optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/util/schedule.h"

namespace millrace {

// A warning for a run of this many steps; "" if the rates are common. Optimizers unknown here may have any rate up to 1000.
std::string doubtful_rate(std::string_view optimizer, const Schedule& schedule, std::uint64_t steps);

// The same for a weight decay that removes a tenth or more of each weight per step.
std::string doubtful_decay(double weight_decay, const Schedule& schedule, std::uint64_t steps);

}  // namespace millrace
