// Which steps of its main graph a run does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/plan.h"

namespace millrace {

// Where a run begins: a step of an epoch, both from 0.
struct StartingPoint {
  std::uint64_t epoch = 0, step = 0;
};

// Steps [first, end) are done, numbered globally from 0. Schedules know of `total` steps: [stop] max_steps may come before them.
struct StepRange {
  std::uint64_t first = 0, end = 0, total = 0;
  bool is_shortened() const { return end < total; }
};

struct MainGraphSteps {
  std::string name;
  bool trains = true;
  std::uint64_t an_epoch = 1;
};

struct StepsAsked {
  StartingPoint from = {};
  bool is_resumed = false;
  // In a resumed run whose batches had another size: the step of its epoch, counted in today's batches.
  std::optional<std::uint64_t> step_with_other_batches = {};
  bool is_named = false;   // --graph names the main graph: one that does not train runs for one epoch
  std::uint64_t most = 0;  // steps; 0: as the file says
};

// Throws Error(usage) where the run cannot begin there. A resumed run may have nothing left to do.
StepRange choose_steps(const Pipeline& pipeline, const MainGraphSteps& main, const StepsAsked& asked);

}  // namespace millrace
