// What the files `latest` and `best` name when a run goes on. The newest checkpoint knows the step of the best one, and a kill or
// a fault may have left one without the other.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "run/checkpoint_place.h"

namespace millrace {

// `latest` names the checkpoint that the run goes on behind, which may be an older one; and `best` too, where a run was killed
// before it could say that it is the best one. `was_named`: by a user. Another one is found without `latest` too, the next time,
// so that a place that takes nothing is warned of then. Throws what the place throws.
void point_to_used(CheckpointPlace& checkpoints, const FoundCheckpoint& used, bool was_named,
                   const std::function<void(std::string)>& warn);

// The one that was written when this figure was the best; its path is its name. `key`: of RunState::watched. Nothing: it is not
// there, or damaged.
std::optional<FoundCheckpoint> best_checkpoint(CheckpointPlace& checkpoints, const std::string& key,
                                               const RunState::Watched& best);

// Where `best` does not name the checkpoint that the state knows as the best, and that one is whole, `best` names it again. Else
// the state knows as the best what is there, and `warn` is told.
void mend_best(CheckpointPlace& checkpoints, RunState& state, const std::function<void(std::string)>& warn);

}  // namespace millrace
