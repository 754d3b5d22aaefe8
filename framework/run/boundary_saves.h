// What a run saves at boundaries of its main graph: weights that somebody asked for, the best ones, and checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "millrace/error.h"
#include "prepare/stop_rules.h"
#include "run/run_context.h"
#include "run/run_meter.h"
#include "run/stop_request.h"

namespace millrace {

// One thread. All that it is given outlives it. All processes decide the same, since what they look at is agreed upon.
class BoundarySaves {
 public:
  BoundarySaves(const RunContext& run, const StopRequest& stop, const StopRules& rules);

  void ask_for_checkpoints();             // some times a second: by time, and for signals
  bool is_due(std::uint64_t done) const;  // a checkpoint, as [checkpoint] every says
  void save_asked(std::uint64_t done);    // the weights, for those who asked for them
  // In a run without checkpoints, from which the best weights would be exported: writes them where the state of the run
  // `is_best`, else tries those that wait again.
  void save_best(bool is_best);
  // A checkpoint, where one is due or somebody asks for it. `best`: the state is the best so far. `state` is called for it.
  void checkpoint(std::uint64_t done, bool best, const Observers::Waiting& waiting, const std::function<SavedState()>& state);
  void complete_checkpoints(std::uint64_t done);  // where the newest one is of this step
  bool has_checkpoint(std::uint64_t done) const { return checkpointed_ == done; }
  void restore(std::uint64_t done) { checkpointed_ = done; }  // of a resumed run
  void forget_checkpoint() { checkpointed_.reset(); }         // the next one is written, also where it is of the same step

  // What was trained outlives a mistake in another graph: saves the weights, and adds to the error where they are.
  Error with_weights(const Error& error, std::uint64_t done);

 private:
  bool leaves_out();
  static std::string name_of(std::uint64_t done);  // of weights that are saved

  const RunContext& run_;
  const StopRequest& stop_;
  const StopRules& rules_;
  const std::uint64_t steps_per_epoch_;
  int checkpoint_signals_ = 0;                 // that were asked for
  std::optional<std::uint64_t> checkpointed_;  // steps done in the newest checkpoint
};

}  // namespace millrace
