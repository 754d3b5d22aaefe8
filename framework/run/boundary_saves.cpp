#include "run/boundary_saves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"

namespace millrace {

BoundarySaves::BoundarySaves(const RunContext& run, const StopRequest& stop, const StopRules& rules)
    : run_(run), stop_(stop), rules_(rules), steps_per_epoch_(std::max<std::uint64_t>(run.main().data().steps_per_epoch(), 1)) {}

std::string BoundarySaves::name_of(std::uint64_t done) { return fmt::format("weights-step-{}.safetensors", done); }

void BoundarySaves::save_asked(std::uint64_t done) {
  while (auto request = run_.requests().take(RequestKind::save, done)) {
    try {
      const std::string file = run_.weights == nullptr ? std::string() : run_.weights->save(name_of(done));
      if (file.empty()) {
        run_.requests().refuse(std::move(*request), "the run has no folder");
      } else {
        run_.requests().complete(std::move(*request), done, file);
      }
    } catch (const Error& error) {
      run_.requests().refuse(std::move(*request), error.what());
    }
  }
}

void BoundarySaves::save_best(bool is_best) {
  if (run_.checkpointer != nullptr || !run_.pipeline().best) return;
  if (is_best) {
    run_.weights->save_best(rules_.best_found());
  } else {
    run_.weights->retry_best();
  }
}

void BoundarySaves::ask_for_checkpoints() {
  if (stop_.found()) return;  // which has one of its own
  if (run_.checkpointer != nullptr && run_.checkpointer->is_time()) {
    run_.requests().ask({.kind = RequestKind::checkpoint, .by = "[checkpoint]", .text = {}});
  }
  const int signals = run_.options().hooks.checkpoint_signals ? run_.options().hooks.checkpoint_signals->load() : 0;
  if (std::exchange(checkpoint_signals_, signals) != signals) {
    run_.requests().ask({.kind = RequestKind::checkpoint, .by = "a signal", .text = {}});
  }
}

bool BoundarySaves::is_due(std::uint64_t done) const {
  return run_.checkpointer != nullptr && run_.pipeline().checkpoint.due(done, steps_per_epoch_, run_.steps().end);
}

void BoundarySaves::checkpoint(std::uint64_t done, bool best, const Observers::Waiting& waiting,
                               const std::function<SavedState()>& state) {
  const auto since = Checkpointer::Clock::now();
  std::vector<RequestEvent> asked;
  while (auto request = run_.requests().take(RequestKind::checkpoint, done)) asked.push_back(std::move(*request));
  if (run_.checkpointer == nullptr) {
    for (RequestEvent& request : asked) run_.requests().refuse(std::move(request), "the run writes no checkpoints");
    return;
  }
  const bool must_be = stop_.found() || done == run_.steps().end || !asked.empty();
  if (best || (checkpointed_ != done && (must_be || (is_due(done) && !leaves_out())))) {
    run_.doing(fmt::format("the checkpoint after step {}", done));
    SavedState now = state();
    run_.observers().flush(waiting);  // what it stands behind is written down
    run_.checkpointer->save(std::move(now), best, since);
    checkpointed_ = done;
  }
  for (RequestEvent& request : asked) run_.requests().complete(std::move(request), done);
}

void BoundarySaves::complete_checkpoints(std::uint64_t done) {
  if (checkpointed_ != done) return;
  while (auto request = run_.requests().take(RequestKind::checkpoint, UINT64_MAX))
    run_.requests().complete(std::move(*request), done);
}

// Rank 0, which writes, says for all processes whether attempts that failed have this one left out.
bool BoundarySaves::leaves_out() {
  const bool out = run_.checkpointer->backs_off();
  if (run_.options().group == nullptr) return out;
  std::vector<std::byte> verdict{out ? std::byte{1} : std::byte{0}};
  run_.options().group->broadcast(Group::kRun, 0, verdict);
  return verdict.at(0) != std::byte{0};
}

// Each of several processes has its own error here, and none waits for the others.
Error BoundarySaves::with_weights(const Error& error, std::uint64_t done) {
  const bool can_save =
      run_.weights != nullptr && run_.barriers.empty() && error.kind() != ErrorKind::device && error.message() != kOutOfMemory;
  if (!can_save) return error;
  try {
    const std::string file = run_.weights->save(name_of(done));
    if (!file.empty()) return {error.kind(), fmt::format("{}; the weights of step {} are in '{}'", error.what(), done, file)};
  } catch (const Error&) {  // the first error counts
  }
  return error;
}

}  // namespace millrace
