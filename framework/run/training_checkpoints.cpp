// When training stands still for a checkpoint, what is in it, and how a run resumes from one.
#include <algorithm>
#include <utility>

#include "millrace/loss.h"
#include "run/training.h"

namespace millrace {
namespace {

// Of another loss, which --allow-change allows, the sums may be others.
bool are_sums_of(const Loss* loss, const StepSums& sums) {
  if (loss == nullptr) return false;
  const std::size_t named = loss->info().sums.size();
  return loss->info().class_matrix ? sums.values.size() > named : sums.values.size() == named;
}

}  // namespace

// The step with which the run began, as batches of today's size count it.
std::uint64_t Training::first_step_before(const RunState& state) const {
  const std::uint64_t is = parts_.builds.front()->batch().size;
  if (state.batch_size == 0 || state.batch_size == is) return state.first_step;
  const std::uint64_t epoch = state.step - state.step_of_epoch;  // its first step, as it was counted then
  if (state.first_step <= epoch) return 0;                       // all of the epoch under way is the run's
  const std::uint64_t before = (state.first_step - epoch) * state.batch_size / is;
  return state.epoch * steps_per_epoch_ + std::min(before, steps_per_epoch_);
}

void Training::resume_from(const RunState& state) {
  begun_with_ = first_step_before(state);
  rules_.restore(state.watched);
  if (state.rate_factor != 1) parts_.requests.set_factor(parts_.first_step, state.rate_factor);
  const RunState::Epoch& epoch = state.so_far;
  const GraphBuild& main = *parts_.builds.front();
  const std::uint64_t steps = parts_.first_step - first_step_of(state.epoch);  // as batches of today's size count them
  epoch_is_over_ = steps > 0 && parts_.first_step % steps_per_epoch_ == 0;
  if (epoch.steps > 0 && steps > 0) {
    std::shared_ptr<const Loss> loss;  // of the steps that the epoch still has, if there are any
    if (epoch_is_over_) loss = main.loss();
    if (!are_sums_of(loss.get(), epoch.sums)) loss = nullptr;
    training_seconds_ = seconds_before_ = epoch.seconds;
    samples_before_ = epoch.samples;
    parts_.log.restore(main.plan().name, state.epoch,
                       {.loss = std::move(loss),
                        .sums = epoch.sums,
                        .samples = epoch.samples,
                        .steps = steps,
                        .stream_hash = epoch.stream_hash});
  }
  for (std::size_t g = 1; g < parts_.builds.size(); ++g) {
    const std::string& name = parts_.builds[g]->plan().name;
    if (std::ranges::find(state.passes_due, name) != state.passes_due.end()) passes_left_.push_back(g);
  }
  const bool is_same_step = state.step == parts_.first_step;  // not with batches of another size
  if (passes_left_.empty() && is_same_step) checkpointed_ = state.step;
}

// What the run that was stopped did not come to. Larger batches may leave nothing to do of its epoch, which then ends here.
void Training::finish_boundary() {
  const std::uint64_t done = parts_.first_step;
  if ((passes_left_.empty() && !epoch_is_over_) || stop_requested()) return;
  if (epoch_is_over_) end_epoch((done - 1) / steps_per_epoch_, done);
  std::vector<std::size_t> due;
  for (std::size_t g = 1; g < every_.size(); ++g) {
    const bool was_due = std::ranges::find(passes_left_, g) != passes_left_.end();
    if (was_due || (epoch_is_over_ && every_[g].due(done, steps_per_epoch_, parts_.total_steps))) due.push_back(g);
  }
  run_passes(due);
  end_boundary(done);
}

void Training::ask_for_checkpoints() {
  if (stop_) return;  // which has one of its own
  if (parts_.checkpointer != nullptr && parts_.checkpointer->is_time()) {
    parts_.requests.ask({.kind = RequestKind::checkpoint, .by = "[checkpoint]", .text = {}});
  }
  const int signals = parts_.options.checkpoint_signals ? parts_.options.checkpoint_signals->load() : 0;
  if (std::exchange(checkpoint_signals_, signals) != signals) {
    parts_.requests.ask({.kind = RequestKind::checkpoint, .by = "a signal", .text = {}});
  }
}

// All processes decide the same, since what they look at is agreed upon.
void Training::checkpoint(std::uint64_t done, bool best) {
  const auto since = Clock::now();
  std::vector<RequestEvent> asked;
  while (auto request = parts_.requests.take(RequestKind::checkpoint, done)) asked.push_back(std::move(*request));
  if (parts_.checkpointer == nullptr) {
    for (RequestEvent& request : asked) parts_.requests.refuse(std::move(request), "the pipeline has no [checkpoint]");
    return;
  }
  const bool must_be = best || stop_ || done == parts_.total_steps || !asked.empty();
  const bool may_be = parts_.pipeline.checkpoint.due(done, steps_per_epoch_, parts_.total_steps);
  if (checkpointed_ != done && (must_be || (may_be && !leaves_out()))) {
    doing(fmt::format("the checkpoint after step {}", done));
    RunState now = state(done);
    parts_.observers.flush(waiting());  // what it stands behind is written down
    parts_.checkpointer->save(std::move(now), best, since);
    checkpointed_ = done;
  }
  for (RequestEvent& request : asked) parts_.requests.honour(std::move(request), done);
}

// Rank 0, which writes, says for all processes whether attempts that failed have this one left out.
bool Training::leaves_out() {
  const bool out = parts_.checkpointer != nullptr && parts_.checkpointer->backs_off();
  if (parts_.options.group == nullptr) return out;
  std::vector<std::byte> verdict{out ? std::byte{1} : std::byte{0}};
  parts_.options.group->broadcast(Group::kRun, 0, verdict);
  return verdict.at(0) != std::byte{0};
}

RunState Training::state(std::uint64_t done) {
  RunState state;
  state.step = done;
  state.epoch = done / steps_per_epoch_;
  state.step_of_epoch = done % steps_per_epoch_;
  state.first_step = begun_with_;
  state.seconds = parts_.observers.elapsed_seconds();
  state.rate_factor = parts_.requests.factor(done);
  for (const std::size_t g : passes_left_) state.passes_due.push_back(parts_.builds[g]->plan().name);
  state.watched = rules_.state();
  const GraphBuild& main = *parts_.builds.front();
  state.batch_size = main.batch().size;
  parts_.log.samples_done(main.plan().name, state.epoch, state.step_of_epoch * main.batch().size);
  parts_.log.save_bad_samples(state);
  if (state.step_of_epoch == 0) return state;
  const std::string& name = main.plan().name;
  const std::uint64_t steps = done - first_step_of(state.epoch);
  if (!parts_.agreements.empty() && reported_) await_others(name, state.epoch, steps);
  const RunLog::Sums sums = await_reports(name, state.epoch, steps);
  state.so_far = {training_seconds_, sums.samples, sums.steps, sums.stream_hash, sums.sums};
  return state;
}

}  // namespace millrace
