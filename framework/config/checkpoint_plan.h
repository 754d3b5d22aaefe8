// [checkpoint]: when a run writes checkpoints, and which of them it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/every.h"
#include "config/stop_plan.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

// [checkpoint], as written.
struct CheckpointParams {
  std::string every = "epoch";
  std::int64_t keep = 3;
  std::string keep_every;
  std::string best;
  std::string resume = "never";
  std::string folder;

  static void describe(ParamSet<CheckpointParams>& set);
};

struct CheckpointPlan {
  bool wanted = false;      // the run writes checkpoints
  bool by_default = false;  // not requested by the file: keeps the newest checkpoint of each epoch, if the run has a folder
  Every every;              // by steps or epochs; the end of the run always counts
  double seconds = 0;       // > 0: by time instead
  std::size_t keep = 3;
  Every keep_every;                // the first checkpoint at or after each such moment is kept permanently; by default none
  std::optional<FigurePlan> best;  // the checkpoint at this metric's best value is also kept
  bool resume = false;             // resumes the newest run of this name, if there is one
  std::string folder;              // ""; or the folder or URL for the checkpoints of all runs, with a subfolder for each run

  bool due(std::uint64_t done, std::uint64_t steps_per_epoch, std::uint64_t total_steps) const {
    return wanted && every.due(done, steps_per_epoch, total_steps);
  }
};

// `checkpoint`: the table, or null. Mistakes go to `errors`.
CheckpointPlan plan_checkpoint(const Value* checkpoint, const std::vector<GraphPlan>& graphs, Diagnostics& errors);

}  // namespace millrace
