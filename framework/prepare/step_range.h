// Chooses the steps of the main graph that a run does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/plan.h"

namespace millrace {

// The start of a run: a step of an epoch, both from 0.
struct StartingPoint {
  std::uint64_t epoch = 0, step = 0;
};

// The run does steps [first, end), numbered globally from 0. Schedules use `total` steps: [stop] max_steps may be less.
struct StepRange {
  std::uint64_t first = 0, end = 0, total = 0;
  bool is_shortened() const { return end < total; }
};

struct MainGraphSteps {
  std::string name;
  bool trains = true;
  std::uint64_t an_epoch = 1;
};

struct RequestedSteps {
  StartingPoint from = {};
  bool is_resumed = false;
  // For a resumed run with another batch size: the step of its epoch, in current batches.
  std::optional<std::uint64_t> step_with_other_batches = {};
  bool is_named = false;   // --graph selects the main graph, which runs for one epoch if it does not train
  std::uint64_t most = 0;  // steps; 0: as in the file
};

// Throws Error(usage) if the run cannot begin there. A resumed run may have nothing left to do.
StepRange choose_steps(const Pipeline& pipeline, const MainGraphSteps& main, const RequestedSteps& asked);

}  // namespace millrace
