// What Training tells observers, and the sums that it waits for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/waited_time.h"
#include "millrace/observer.h"
#include "run/check.h"
#include "run/training.h"

namespace millrace {
namespace {

// Who the run waits for, from what the stages did: the data stages when the gate had no batch, else the training step.
std::string who_is_waited_for(const Graph::Figures& now) {
  if (now.waited_for_data_seconds <= now.waited_for_step_seconds) return "the training step";
  std::string slowest = "data";
  double most = 0;
  for (const auto& stage : now.stages) {
    if (stage.replica < 0 && stage.busy_seconds > most) {
      most = stage.busy_seconds;
      slowest = "data (" + stage.name + ")";
    }
  }
  return slowest;
}

}  // namespace

void Training::tell_start() {
  const RunParams& run = parts_.pipeline.run;
  RunStart event;
  event.name = run.name;
  event.file = parts_.pipeline.file;
  event.folder = parts_.log.folder();
  event.graph = parts_.builds.front()->plan().name;
  event.seed = run.seed;
  event.epochs = run.epochs;
  event.first_step = parts_.first_step + 1;
  event.steps = parts_.total_steps;
  event.steps_per_epoch = steps_per_epoch_;
  event.replicas = parts_.all_replicas;
  event.resumed = parts_.resumed != nullptr;
  event.checkpoint = parts_.resumed_from;
  parts_.observers.start(std::move(event), [this](const std::string& observer) { doing("observer " + observer); });
  parts_.started();
}

void Training::end_epoch(std::uint64_t epoch, std::uint64_t done) {
  const std::string& name = parts_.builds.front()->plan().name;
  const std::uint64_t first = first_step_of(epoch);
  const RunLog::Sums sums = await_reports(name, epoch, done - first);
  const GraphBuild& build = *parts_.builds.front();
  const bool known = sums.steps > 0;
  const double images = known ? sums.samples : static_cast<double>(build.samples_until(done) - build.samples_until(first));
  EpochEvent event;
  event.graph = name;
  event.epoch = epoch + 1;
  event.step = done;
  event.epochs = parts_.pipeline.run.epochs;
  event.reported = known;
  event.figures = sums.figures();
  rules_.look(name, event.figures, done);
  event.images_per_second = images / std::max(training_seconds_, 1e-9);
  event.seconds = training_seconds_;
  event.stream_hash = sums.stream_hash;
  event.resident_bytes = resident_bytes();
  parts_.observers.tell(std::move(event));
  require_measured(sums, epoch);
  if (done % steps_per_epoch_ != 0) return;  // a longer run may go on with this epoch
  parts_.log.forget(name, epoch);
  parts_.log.samples_done(name, epoch + 1, 0);
  training_seconds_ = seconds_before_ = samples_before_ = 0;
}

// Rank 0 of several processes has the sums of all.
bool Training::is_first() const { return parts_.options.group == nullptr || parts_.options.group->rank() == 0; }

// An epoch of nothing is no training, and would end well.
void Training::require_measured(const RunLog::Sums& sums, std::uint64_t epoch) const {
  if (!sums.measured_nothing() || !is_first()) return;
  const std::string& name = parts_.builds.front()->plan().name;
  fail(ErrorKind::data, "[{}]: no sample of epoch {} could be used, so nothing was trained{}", name, epoch + 1,
       left_out_text(name));
}

void Training::warn_of_nothing(const std::string& graph) const {
  if (!is_first()) return;
  parts_.log.warn(
      fmt::format("[{}]: nothing was measured after step {}, since no sample could be used{}; it has no figures, and "
                  "counts for no best weights, [stop] or [plateau]",
                  graph, done_, left_out_text(graph)));
}

std::string Training::left_out_text(const std::string& graph) const {
  const std::uint64_t skipped = parts_.log.skipped_samples(graph);
  if (skipped == 0) return ": all weights are 0";
  return fmt::format(": {} bad sample{} skipped so far, which quarantine.jsonl names", skipped, skipped == 1 ? " was" : "s were");
}

bool Training::is_drained() {
  const std::lock_guard lock(mutex_);
  return drained_;
}

// The last reports are a matter of microseconds. A stage that never makes them must not keep the run.
RunLog::Sums Training::await_reports(const std::string& name, std::uint64_t epoch, std::uint64_t expected) {
  WaitedTime waited;
  RunLog::Sums sums = parts_.log.sums(name, epoch);
  while (reported_ && sums.steps < expected) {
    if (is_drained()) break;
    if (waited.look() > parts_.options.report_patience) {
      parts_.log.warn(fmt::format("[{}]: {} of {} steps of epoch {} were reported within {} s; figures leave out the others",
                                  name, sums.steps, expected, epoch + 1, parts_.options.report_patience));
      reported_ = sums.steps > 0;
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    sums = parts_.log.sums(name, epoch);
  }
  return sums;
}

// What a device computes beside a step's loss, such as the norm of its gradients, may come behind it. Observers hear of the step
// before its epoch and its checkpoint.
void Training::await_steps(std::uint64_t done) {
  WaitedTime waited;
  while (tells_steps_ && !parts_.log.has_told_until(done) && !is_drained()) {
    if (waited.look() > parts_.options.report_patience) {
      parts_.log.warn(
          fmt::format("step {}: what its stages promised to tell of it has not come within {} s; steps are told later "
                      "than their epochs from here on",
                      done, parts_.options.report_patience));
      tells_steps_ = false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// Of a pass that this process has done: the other processes' reports are on their way.
void Training::await_others(const std::string& name, std::uint64_t epoch, std::uint64_t expected) {
  WaitedTime waited;
  while (parts_.log.sums(name, epoch).steps < expected && waited.look() < parts_.options.report_patience) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

RunLog::Sums Training::take_sums(const std::string& name, std::uint64_t first_epoch, std::uint64_t last_epoch) {
  RunLog::Sums all;
  for (std::uint64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    all.add(parts_.log.sums(name, epoch));
    parts_.log.forget(name, epoch);
  }
  return all;
}

// Training may go on: weights that grow too large for a validation may have finite losses.
void Training::warn_of_numbers(const PassEvent& pass) {
  if (!is_first()) return;
  const auto wrong =
      std::find_if(pass.figures.begin(), pass.figures.end(), [](const Figure& f) { return !std::isfinite(f.value); });
  if (wrong == pass.figures.end() || !warned_of_numbers_.insert(pass.graph).second) return;
  parts_.log.warn(
      fmt::format("[{}]: {} is {} at step {}; {}", pass.graph, wrong->name, wrong->value, pass.step, parts_.newest_checkpoint()));
}

void Training::end_pass(std::size_t g, std::uint64_t first, std::uint64_t last, double seconds, std::uint64_t left_out) {
  const GraphBuild& build = *parts_.builds[g];
  const std::uint64_t an_epoch = build.steps_per_epoch();
  const RunLog::Sums sums = take_sums(build.plan().name, first / an_epoch, last / an_epoch);
  PassEvent event;
  event.graph = build.plan().name;
  event.epoch = static_cast<double>(done_) / static_cast<double>(steps_per_epoch_);  // the main graph stands still
  event.step = done_;
  event.reported = sums.steps > 0;
  event.samples =
      event.reported ? sums.samples : static_cast<double>(build.samples_until(last) - build.samples_until(first) - left_out);
  event.figures = sums.figures();
  event.class_matrix = sums.class_matrix();
  if (!event.class_matrix.empty()) event.classes = build.classes();
  rules_.look(event.graph, event.figures, event.step);
  warn_of_numbers(event);
  if (sums.measured_nothing()) warn_of_nothing(event.graph);
  event.seconds = seconds;
  event.images_per_second = event.samples / seconds;
  event.stream_hash = sums.stream_hash;
  parts_.observers.tell(std::move(event));
  if (sums.steps > 0) result_.last_validation = sums;
}

void Training::tell_tick(const std::string& waits_for) {
  ticked_ = Clock::now();
  const GraphBuild& build = *parts_.builds.front();
  TickEvent event;
  {
    const std::lock_guard lock(mutex_);
    event.step = done_;
  }
  if (event.step == parts_.total_steps && waits_for.empty()) return;  // what there is to say is said
  event.graph = build.plan().name;
  event.steps = parts_.total_steps;
  event.epochs = parts_.pipeline.run.epochs;
  event.epoch = static_cast<double>(event.step) / static_cast<double>(steps_per_epoch_);
  const std::uint64_t epoch = event.step / steps_per_epoch_;
  const RunLog::Sums sums = parts_.log.sums(build.plan().name, epoch);
  event.figures = sums.figures();
  const double seconds = training_seconds_ - seconds_before_ + seconds_since(resumed_);
  const std::uint64_t steps = event.step - std::max(epoch * steps_per_epoch_, parts_.first_step);
  if (steps > 0) {
    event.images_per_second = (sums.samples - samples_before_) / seconds;
    event.seconds_left = seconds / static_cast<double>(steps) * static_cast<double>(event.steps - event.step);
  }
  const Graph::Figures figures = parts_.graphs.front()->figures();
  event.waited_for_data_seconds = figures.waited_for_data_seconds;
  event.waited_for_step_seconds = figures.waited_for_step_seconds;
  event.waits_for = waits_for.empty() ? who_is_waited_for(figures) : waits_for;
  parts_.observers.tell(std::move(event));
}

}  // namespace millrace
