// The best state of a run: the checkpoint that `best` names, and best.safetensors, which is exported from it.
//
// One metric decides. Each time it improves, the run writes a checkpoint, points `best` to it and, if run.best is set, exports
// its weights to best.safetensors. The newest checkpoint stores the best value and its step (SavedState::watched), so a resumed
// run finds the best checkpoint even after a kill or failure between these. A run without [checkpoint] has only the file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_place.h"
#include "config/plan.h"
#include "weight_files/best_weights.h"

namespace millrace {

// The metric of run.best or [checkpoint] best, which name the same one. Empty if the run has no best.
const std::optional<FigurePlan>& best_figure(const Pipeline& pipeline);

std::string best_key(const std::string& figure);  // a key of SavedState::watched
// The best value in this state. Checkpoints of earlier versions may store it under another key. Null if there is none.
const SavedState::Watched* watched_best(const SavedState& state, const std::string& figure);
std::optional<Best> best_of(const SavedState& state, const std::string& figure);

// Points `latest` to the checkpoint that the run resumes from, which may be an older one. On failure, throws if the user named
// the checkpoint (`was_named`). Otherwise it only warns, because the next resume finds the checkpoint without `latest` too.
void point_to_used(CheckpointPlace& place, const FoundCheckpoint& used, bool was_named,
                   const std::function<void(std::string)>& warn);

// The checkpoint written for this best value; its path is its name. Empty if it is missing or damaged.
std::optional<FoundCheckpoint> best_checkpoint(CheckpointPlace& place, const Best& best);

// Points `best` to the best checkpoint recorded in `used`, and returns it. If that is gone and best.safetensors (`exported`: its
// metadata) does not hold it either, warns, and records in `used` the checkpoint under the pointer as the best, or else waits
// for the next value. Null without such a checkpoint. REQUIRES: `used` outlives the result, which may point into it.
std::shared_ptr<const Checkpoint> mend_best(CheckpointPlace& place, FoundCheckpoint& used, const std::string& figure,
                                            const std::optional<Best>& exported, const std::function<void(std::string)>& warn);

}  // namespace millrace
