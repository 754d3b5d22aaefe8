// The best checkpoint of a run that goes on: the file `best` names it, and the newest checkpoint knows its step. A kill or a
// fault may have left one without the other.
#pragma once

#include <functional>
#include <string>

#include "run/checkpoint_place.h"

namespace millrace {

// Of a run that was killed before it could say that the checkpoint which it goes on behind is the best one.
void point_to_best(CheckpointPlace& checkpoints, const FoundCheckpoint& used);

// Where `best` does not name the checkpoint that the state knows as the best, and that one is whole, `best` names it again. Else
// the state knows as the best what is there, and `warn` is told.
void mend_best(CheckpointPlace& checkpoints, RunState& state, const std::function<void(std::string)>& warn);

}  // namespace millrace
