// Learning rates that no training uses, by orders of magnitude: a misplaced point, or the rate of another optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/util/schedule.h"

namespace millrace {

// A sentence for a run of so many steps by this optimizer; "": its rates are such as people use. An optimizer that is not known
// here may have any up to 1000.
std::string doubtful_rate(std::string_view optimizer, const Schedule& schedule, std::uint64_t steps);

// The same of a weight decay that takes a tenth of each weight and more in a step.
std::string doubtful_decay(double weight_decay, const Schedule& schedule, std::uint64_t steps);

}  // namespace millrace
