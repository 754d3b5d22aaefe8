// The best state of a run: the checkpoint that `best` names, and best.safetensors, which is exported from it.
//
// One figure says which it is. Whenever it improves, the run has a checkpoint, `best` names it, and its weights are written into
// best.safetensors where run.best asks for that. The newest checkpoint knows the best figure and its step (SavedState::watched),
// so a resumed run finds the best checkpoint again after a kill or a fault between these. A run without [checkpoint] has the file
// alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_place.h"
#include "config/plan.h"
#include "weight_files/best_weights.h"

namespace millrace {

// The figure of run.best or of [checkpoint] best, which name the same one. Nothing: the run has no best.
const std::optional<FigurePlan>& best_figure(const Pipeline& pipeline);

std::string best_key(const std::string& figure);  // of SavedState::watched
// What a run in this state has found. Checkpoints of earlier versions may have another key for it. Nothing: it has found none.
const SavedState::Watched* watched_best(const SavedState& state, const std::string& figure);
std::optional<Best> best_of(const SavedState& state, const std::string& figure);

// `latest` names the checkpoint that a run resumes from, which may be an older one. Another one is found without `latest` too,
// the next time, so a place that takes nothing is warned of then; of one that a user named (`was_named`) the error is thrown.
void point_to_used(CheckpointPlace& place, const FoundCheckpoint& used, bool was_named,
                   const std::function<void(std::string)>& warn);

// The checkpoint that was written when this was the best; its path is its name. Nothing: it is not there, or damaged.
std::optional<FoundCheckpoint> best_checkpoint(CheckpointPlace& place, const Best& best);

// Makes `best` name the best checkpoint that `used` knows, and returns that one. Where it is gone and best.safetensors
// (`exported`: what that says) is not of it either, `warn` is told, and the best is what the pointer names, or the next figure:
// `used` knows that from here on. Null: there is no such checkpoint. REQUIRES: `used` lives as long as what is returned, which
// may be its own.
std::shared_ptr<const Checkpoint> mend_best(CheckpointPlace& place, FoundCheckpoint& used, const std::string& figure,
                                            const std::optional<Best>& exported, const std::function<void(std::string)>& warn);

}  // namespace millrace
