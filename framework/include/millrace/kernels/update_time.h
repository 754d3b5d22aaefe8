// Inputs to an optimizer's numbers besides its parameters. All of them follow from the step and from a checkpoint, so a resumed
// run has the same bits.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace {

struct UpdateTime {
  std::uint64_t updates_done = 0;       // since the states were initialised
  double learning_rate = 0;             // the schedule's; a parameter's factor multiplies it
  double progress = 0;                  // share of the run's steps done, from 0 to 1
  std::optional<double> momentum = {};  // the schedule's; empty: the optimizer's own
};

}  // namespace millrace
