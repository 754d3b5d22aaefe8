// What the numbers of an optimizer may depend on besides its parameters. Bits of a run that resumes are the same, because all
// of it follows from the step and from a checkpoint.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace {

struct UpdateTime {
  std::uint64_t updates_done = 0;       // since the states had their initial values
  double learning_rate = 0;             // the schedule's; a parameter's factor multiplies it
  double progress = 0;                  // share of the run's steps that are done, from 0 to 1
  std::optional<double> momentum = {};  // the schedule's; nothing: the optimizer's own
};

}  // namespace millrace
