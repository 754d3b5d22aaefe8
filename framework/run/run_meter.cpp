#include "run/run_meter.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <thread>
#include <utility>

#include "checkpoint/best.h"
#include "checkpoint/changes.h"
#include "millrace/backend/device_clock.h"
#include "millrace/loss.h"
#include "report/class_figures.h"
#include "run/bottleneck.h"
#include "util/memory_limit.h"
#include "util/waited_time.h"

namespace millrace {
namespace {

constexpr auto kPause = std::chrono::microseconds(200);                         // between polls for the reports of a step
constexpr int kMaxReportedDetails = 4 * static_cast<int>(kMaxReportedClasses);  // per sink; above this number only the requested ones are reported
constexpr auto kReportPeriod =
    std::chrono::milliseconds(50);  // at which one that waits for reports looks whether they still come

// Whether the resumed run has the loss of its checkpoint: --allow-change allows another one, whose sums are no part of these.
bool has_loss_of_checkpoint(const PreparedRun& run) {
  const std::string graph = run.main().plan().name + ".";
  const auto is_of_loss = [&](const Difference& each) {
    return each.key.starts_with(graph) && (each.key + ".").find(".loss.") != std::string::npos;
  };
  return std::ranges::none_of(compare_with_checkpoint(*run.resume_point, run.record(), run.pipeline).differences, is_of_loss);
}

// Checkpoints of earlier versions have no totals of classes.
bool has_its_sums(const GraphBuild& main, const StepSums& sums) {
  const std::shared_ptr<const Loss> loss = main.loss();
  return !loss || !loss->info().class_totals || sums.values.size() > loss->info().sums.size();
}

}  // namespace

RunMeter::RunMeter(const RunContext& run, const RunState& state, const MainProgress& progress)
    : run_(run),
      state_(state),
      progress_(progress),
      steps_per_epoch_(std::max<std::uint64_t>(run.main().data().steps_per_epoch(), 1)),
      reported_(has_reports(run.main().plan())),
      telemetry_(run) {}

void RunMeter::restore(const SavedState& saved) {
  const GraphBuild& main = run_.main();
  const SavedState::Epoch& epoch = saved.so_far;
  const std::uint64_t steps = run_.steps().first - first_step_of(saved.epoch);  // counted in batches of today
  if (steps == 0) return;
  seconds_before_ = epoch.seconds;
  training_.set(epoch.seconds);
  if (epoch.steps == 0) return;  // no stage reports them
  samples_before_ = epoch.samples;
  GraphSums sums{.loss = nullptr, .sums = {}, .samples = epoch.samples, .steps = steps, .stream_hash = epoch.stream_hash};
  if (has_loss_of_checkpoint(run_.prepared) && has_its_sums(main, epoch.sums)) {
    sums.sums = epoch.sums;
    if (state_.epoch_is_over) sums.loss = main.loss();  // else the steps that the epoch still has bring it
  } else if (run_.options().is_first()) {
    run_.log().warn(fmt::format("[{}]: the loss has changed: figures of epoch {} leave out its first {} step{}", main.plan().name,
                                saved.epoch + 1, steps, steps == 1 ? "" : "s"));
  }
  run_.findings().epochs.restore(main.plan().name, saved.epoch, std::move(sums));
}

void RunMeter::pause() {
  training_.stop();
  telemetry_.pause();
}

SavedState::Epoch RunMeter::epoch_so_far(std::uint64_t done) {
  const std::string& name = run_.main().plan().name;
  const std::uint64_t epoch = done / steps_per_epoch_, steps = done - first_step_of(epoch);
  if (!run_.barriers.empty()) await_others(name, epoch, reported_ ? steps : 0);
  const GraphSums sums = await_reports(name, epoch, steps);
  return {training_.seconds(), sums.samples, sums.steps, sums.stream_hash, sums.sums};
}

RunMeter::MeasuredEpoch RunMeter::measure_epoch(std::uint64_t epoch, std::uint64_t done) {
  const GraphBuild& build = run_.main();
  const std::uint64_t first = first_step_of(epoch);
  const GraphSums sums = await_reports(build.plan().name, epoch, done - first);
  const bool known = sums.steps > 0;
  const double images =
      known ? sums.samples : static_cast<double>(build.data().samples_until(done) - build.data().samples_until(first));
  EpochEvent event;
  event.graph = build.plan().name;
  event.epoch = epoch + 1;
  event.step = done;
  event.epochs = run_.pipeline().run.epochs;
  event.reported = known;
  event.figures = figures_of(build, sums);
  event.seconds = training_.seconds();
  event.images_per_second = images / std::max(event.seconds, 1e-9);
  event.stream_hash = sums.stream_hash;
  event.resident_bytes = resident_bytes();
  event.waits_for = telemetry_.end_epoch();
  return {std::move(event), sums.measured_nothing()};
}

// Without this error, an epoch without samples would end well.
void RunMeter::report(MeasuredEpoch epoch) {
  const std::string name = epoch.event.graph;
  const std::uint64_t number = epoch.event.epoch, done = epoch.event.step;
  warn_of_loss(epoch.event);
  run_.observers().send(std::move(epoch.event));
  if (epoch.measured_nothing && run_.options().is_first()) {
    fail(ErrorKind::data, "[{}]: no sample of epoch {} could be used, so nothing was trained{}", name, number,
         left_out_text(name));
  }
  if (done % steps_per_epoch_ != 0) return;  // a longer run may go on with this epoch
  run_.findings().epochs.forget(name, number - 1);
  run_.findings().bad_samples.done(name, number, 0);
  training_.set(0);
  seconds_before_ = samples_before_ = 0;
}

// With new weights each epoch is better than the first one, whatever is learned. Those from a file may be as good as they get.
void RunMeter::warn_of_loss(const EpochEvent& epoch) {
  constexpr double kLeastFall = 1e-3;  // share of the first epoch's loss
  const InitialWeights& weights = run_.prepared.weights;
  const bool begins_new = state_.begun_with == 0 && weights.from.file.empty() && weights.metadata.empty();
  const auto loss = std::ranges::find(epoch.figures, "loss", &Figure::name);
  if (!begins_new || loss == epoch.figures.end() || !run_.options().is_first()) return;
  if (run_.options().only_main) return;  // a trial reports its own verdict
  if (epoch.epoch == 1) first_loss_ = loss->value;
  if (epoch.epoch == 1 || !first_loss_ || !(*first_loss_ - loss->value < kLeastFall * std::abs(*first_loss_))) return;
  run_.log().warn(
      fmt::format("[{}]: the loss has not fallen: it is {:.4g} in epoch {}, and was {:.4g} in the first one. --overfit 4 tests "
                  "whether the network learns four batches by heart, and --find-rate proposes a learning rate",
                  epoch.graph, loss->value, epoch.epoch, *first_loss_));
  first_loss_.reset();
}

// Validation sees the weights that the last step left, and training those before each step.
void RunMeter::warn_of_explosion(const PassEvent& pass) const {
  constexpr double kExploded = 1000;  // also times the loss of training
  const auto loss = std::ranges::find(pass.figures, "loss", &Figure::name);
  if (loss == pass.figures.end() || !first_loss_ || pass.step != steps_per_epoch_ || !run_.options().is_first()) return;
  if (!std::isfinite(loss->value) || loss->value < kExploded || loss->value < kExploded * *first_loss_) return;
  run_.log().warn(
      fmt::format("[{}]: the loss is {:.4g} after the first epoch, and was {:.4g} in training: the weights explode, as with a "
                  "learning rate that is too large; --find-rate proposes one",
                  pass.graph, loss->value, *first_loss_));
}

void RunMeter::warn_of_nothing(const std::string& graph) const {
  if (!run_.options().is_first()) return;
  run_.log().warn(
      fmt::format("[{}]: nothing was measured after step {}, since no sample could be used{}; the pass has no figures, and does "
                  "not count for best weights, [stop] or [plateau]",
                  graph, state_.done, left_out_text(graph)));
}

std::string RunMeter::left_out_text(const std::string& graph) const {
  const std::uint64_t skipped = run_.findings().bad_samples.skipped(graph);
  if (skipped == 0) return ": all weights are 0";
  return fmt::format(": {} bad sample{} skipped so far, which quarantine.jsonl names", skipped, skipped == 1 ? " was" : "s were");
}

// The last reports are a matter of microseconds. A stage that never makes them must not keep the run.
GraphSums RunMeter::await_reports(const std::string& graph, std::uint64_t epoch, std::uint64_t steps) {
  const double patience = run_.options().report_patience;
  const EpochSums& epochs = run_.findings().epochs;
  WaitedTime waited;
  std::uint64_t there = 0;
  while (reported_ && (there = epochs.await(graph, epoch, steps, kReportPeriod)) < steps && !progress_.is_drained) {
    if (waited.seconds() <= patience) continue;
    run_.log().warn(fmt::format("[{}]: {} of {} steps of epoch {} were reported within {} s; figures leave out the others", graph,
                                there, steps, epoch + 1, patience));
    reported_ = there > 0;
    break;
  }
  return epochs.of(graph, epoch);
}

// Other results of a step, such as the norm of its gradients, may arrive after its loss.
void RunMeter::await_steps(std::uint64_t done) {
  const double patience = run_.options().report_patience;
  WaitedTime waited;
  while (reports_steps_ && !run_.findings().steps.has_reported_until(done) && !progress_.is_drained) {
    if (waited.seconds() > patience) {
      run_.log().warn(
          fmt::format("step {}: metrics that its stages promised did not arrive within {} s; from here on steps are reported "
                      "after their epochs",
                      done, patience));
      reports_steps_ = false;
    }
    std::this_thread::sleep_for(kPause);
  }
}

void RunMeter::await_others(const std::string& graph, std::uint64_t epoch, std::uint64_t steps) {
  const auto await_here = [&] {
    WaitedTime waited;
    const EpochSums& epochs = run_.findings().epochs;
    while (epochs.await(graph, epoch, steps, kReportPeriod) < steps && waited.seconds() < run_.options().report_patience)
      continue;
  };
  const bool is_first = run_.options().is_first();
  if (!is_first) await_here();                 // then its reports are on their way
  run_.options().group->barrier(Group::kRun);  // the others may be steps behind, however long a step of theirs takes
  if (is_first) await_here();
}

GraphSums RunMeter::take_sums(const std::string& graph, std::uint64_t first_epoch, std::uint64_t last_epoch) {
  GraphSums all;
  for (std::uint64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    all.add(run_.findings().epochs.of(graph, epoch));
    run_.findings().epochs.forget(graph, epoch);
  }
  return all;
}

// A loss that is not finite is one of the step before the pass, and ends the run as a loss of training does. Other figures may be
// infinite where all is well, as PSNR is.
void RunMeter::check_numbers(const PassEvent& pass) {
  const auto loss = std::ranges::find(pass.figures, "loss", &Figure::name);
  const bool is_wrong = loss != pass.figures.end() && !std::isfinite(loss->value);
  if (is_wrong && run_.main().trains() && run_.pipeline().run.on_nan != "skip" && pass.step > 0)
    return run_.findings().numbers.add(pass.step - 1, fmt::format("the loss of [{}]", pass.graph), loss->value);
  if (!run_.options().is_first()) return;
  const auto wrong = std::ranges::find_if(pass.figures, [](const Figure& figure) { return !std::isfinite(figure.value); });
  if (wrong == pass.figures.end() || !warned_of_numbers_.insert(pass.graph).second) return;
  const std::string when = run_.main().trains() ? fmt::format(" at step {}; {}", pass.step, newest_words(run_.checkpointer))
                                                : ": the weights are not finite either, or the network's values grow too large";
  run_.log().warn(fmt::format("[{}]: {} is {}{}", pass.graph, wrong->name, wrong->value, when));
}

// Those of the loss, then those that sinks report, then those of classes. What the run looks at everybody is shown.
std::vector<Figure> RunMeter::figures_of(const GraphBuild& build, const GraphSums& sums) const {
  const std::string& graph = build.plan().name;
  const Pipeline& pipeline = run_.pipeline();
  std::set<std::string> wanted;
  for (const auto& figure : {best_figure(pipeline), pipeline.stop.figure, pipeline.plateau.figure}) {
    if (figure && figure->graph == graph) wanted.insert(figure->name);
  }
  std::vector<Figure> figures = sums.figures(), more = run_.findings().epochs.take_figures(graph);
  const bool has_few = std::ranges::count(more, true, &Figure::is_detail) <= kMaxReportedDetails;
  std::erase_if(more, [&](const Figure& each) { return each.is_detail && !has_few && !wanted.contains(each.name); });
  if (const std::optional<ClassTotals> totals = sums.class_totals())
    std::ranges::move(class_figures(*totals, build.counted_classes(), wanted), std::back_inserter(more));
  for (Figure& figure : more) {
    if (std::ranges::find(figures, figure.name, &Figure::name) == figures.end()) figures.push_back(std::move(figure));
  }
  for (Figure& figure : figures) figure.is_detail = figure.is_detail && !wanted.contains(figure.name);
  return figures;
}

// A few images of two classes may well be predicted as one.
std::string RunMeter::only_class(const GraphBuild& build, const GraphSums& sums) const {
  constexpr double kLeast = 3;
  const std::optional<ClassTotals> totals = sums.class_totals();
  if (!totals || totals->total() < kLeast || totals->only_predicted() == totals->classes()) return {};
  return build.counted_classes()[totals->only_predicted()];
}

bool RunMeter::is_best(std::uint64_t step) const {
  return state_.has_best() && state_.best.batch_size == 0 && state_.best.best_step == step;
}

// A network that has hardly begun to learn often names one class alone, so the first pass of a training is a weak sign: its
// line names the class, and the next one, or the run's end, warns.
void RunMeter::check_for_one_class(const PassEvent& pass) {
  OneClass& found = one_class_[pass.graph];
  if (pass.only_class.empty() || !run_.main().trains() || !run_.options().is_first()) {
    found.passes = 0;
    return;
  }
  const std::uint64_t step = pass.best_step != 0 ? pass.best_step : pass.step;
  found.name = pass.only_class;
  if (is_best(step)) found.best_step = step;
  if (++found.passes == 2) warn_of_one_class(pass.graph, found);
  if (found.passes >= 2) found.warned_step = found.best_step;
}

void RunMeter::warn_of_one_class(const std::string& graph, const OneClass& found) const {
  const std::string best = is_best(found.best_step) ? fmt::format(", also by the best weights so far, those of step {} by {}",
                                                                  found.best_step, best_figure(run_.pipeline())->text())
                                                    : std::string();
  run_.log().warn(
      fmt::format("[{}]: everything is predicted as '{}', though other classes occur{}: the network does not distinguish them. "
                  "Check the learning rate (--find-rate), the mean and deviation of the normalisation, and the labels; if one "
                  "class has most of the images, check class_weights of the loss and `balance` of the source",
                  graph, found.name, best));
}

const Measurements& RunMeter::end_run() const {
  for (const auto& [graph, found] : one_class_) {
    if (!is_best(found.best_step) || found.warned_step == found.best_step) continue;
    warn_of_one_class(graph, found);
  }
  return measured_;
}

// Called before the rules decide about the pass. Metrics of the best weights so far outlive the next pass.
void RunMeter::keep_measured(const PassEvent& pass) {
  if (pass.figures.empty()) return;
  if (pass.best_step != 0) {
    measured_.best[pass.graph] = {pass.best_step, pass.figures};
    return;
  }
  Measured& last = measured_.last[pass.graph];
  if (is_best(last.step)) measured_.best[pass.graph] = last;
  last = {pass.step, pass.figures};
}

RunMeter::MeasuredPass RunMeter::measure_pass(const DonePass& pass) {
  const GraphBuild& build = *run_.builds()[pass.graph];
  const std::uint64_t an_epoch = build.data().steps_per_epoch(), done = state_.done;
  const GraphSums sums = take_sums(build.plan().name, pass.first / an_epoch, pass.last / an_epoch);
  PassEvent event;
  event.graph = build.plan().name;
  event.epoch = static_cast<double>(done) / static_cast<double>(steps_per_epoch_);
  event.step = done;
  event.figures = figures_of(build, sums);
  event.reported = sums.steps > 0 || !event.figures.empty();
  event.samples =
      sums.steps > 0
          ? sums.samples
          : static_cast<double>(build.data().samples_until(pass.last) - build.data().samples_until(pass.first) - pass.left_out);
  event.class_matrix = sums.class_matrix();
  event.only_class = only_class(build, sums);
  if (!event.class_matrix.empty()) event.classes = build.data().classes;
  event.best_step = pass.best_step;
  event.seconds = pass.seconds;
  event.images_per_second = event.samples / pass.seconds;
  event.stream_hash = sums.stream_hash;
  keep_measured(event);
  if (pass.graph != 0) telemetry_.add_pause(event.graph, pass.seconds);
  return {std::move(event), sums.measured_nothing()};
}

void RunMeter::report(MeasuredPass pass) {
  check_numbers(pass.event);
  check_for_one_class(pass.event);
  warn_of_explosion(pass.event);
  if (pass.measured_nothing) warn_of_nothing(pass.event.graph);
  run_.observers().send(std::move(pass.event));
}

void RunMeter::resume() {
  training_.start();
  run_.findings().steps.times_from_now();
  telemetry_.resume();
}

bool RunMeter::telemetry() {
  if (seconds_since(ticked_) < kTick) return false;
  ticked_ = Clock::now();
  run_.observers().send(telemetry_.measure(progress_.done));
  return true;
}

void RunMeter::last_telemetry() {
  run_.prepared.audience.share_last(telemetry_.measure(progress_.done).devices);
  run_.observers().send(telemetry_.measure(progress_.done));
}

void RunMeter::tick(const std::string& waits_for) {
  ticked_ = Clock::now();
  TickEvent event;
  event.step = progress_.done;
  event.steps = run_.steps().end;
  if (event.step == event.steps && waits_for.empty()) return;  // reported already
  event.graph = run_.main().plan().name;
  event.epochs = run_.pipeline().run.epochs;
  event.epoch = static_cast<double>(event.step) / static_cast<double>(steps_per_epoch_);
  const std::uint64_t epoch = event.step / steps_per_epoch_;
  const GraphSums sums = run_.findings().epochs.of(event.graph, epoch);
  event.figures = sums.figures();
  const double seconds = training_.seconds() - seconds_before_;
  const std::uint64_t steps = event.step - std::max(epoch * steps_per_epoch_, run_.steps().first);
  if (steps > 0) {
    event.images_per_second = (sums.samples - samples_before_) / seconds;
    event.seconds_left = seconds / static_cast<double>(steps) * static_cast<double>(event.steps - event.step);
  }
  const TelemetryEvent& newest = telemetry_.newest();
  event.waited_for_data_seconds = newest.waited_for_data_seconds;
  event.waited_for_step_seconds = newest.waited_for_step_seconds;
  event.waits_for = waits_for.empty() ? newest.bottleneck : waits_for;
  run_.observers().send(std::move(event));
}

namespace {

std::vector<DeviceTelemetry> devices_of(const RunContext& run, const Graph::Figures& figures) {
  std::vector<DeviceTelemetry> all;
  const OpenDevices& opened = run.prepared.replicas.devices();
  const Replicas& replicas = run.replicas();
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    DeviceTelemetry device;
    const DeviceInfo& info = opened.devices[r]->info();
    device.name = fmt::format("{}:{}", info.backend, info.index);
    device.replica = static_cast<int>(opened.first_replica + r);
    device.rank = run.options().group == nullptr ? 0 : run.options().group->rank();
    device.memory_bytes = replicas[r]->memory_plan().total();
    if (const auto times = device_times_of(replicas[r].get())) {
      device.compute_seconds = times->computing();
      device.update_seconds = times->update;
      device.copy_seconds = times->copying;
      if (run.prepared.replicas.all() > 1) device.communication_seconds = times->sums;  // else it waits for a data thread
    } else {
      for (const Graph::StageFigures& stage : figures.stages) {
        if (stage.replica == static_cast<int>(r)) device.compute_seconds += stage.device.seconds;
      }
    }
    all.push_back(device);
  }
  const std::vector<DeviceTelemetry> others = run.prepared.audience.devices_of_others();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

TelemetryEvent telemetry_of_main(const RunContext& run, int data_threads) {
  const Graph::Figures figures = run.graph(0).figures();
  TelemetryEvent event;
  event.graph = run.main().plan().name;
  event.elapsed_seconds = run.observers().elapsed_seconds();
  for (const Graph::StageFigures& stage : figures.stages) {
    StageTelemetry& to = event.stages.emplace_back();
    to.name = stage.name;
    to.replica = stage.replica;
    to.on_device = stage.device.seconds > 0;
    to.packets = stage.packets;
    to.samples = stage.device.samples > 0 ? stage.device.samples : stage.samples;
    if (stage.device.samples > 0) to.counted_at = std::max(event.elapsed_seconds - stage.device.ago, 0.0);
    to.busy_seconds = stage.busy_seconds;
    to.computing_seconds = stage.busy_seconds * stage.computing_share;
    to.device_seconds = stage.device.seconds;
    to.threads = Graph::to_string(stage.threads);
    to.bytes = stage.bytes;
    to.service = stage.service;
  }
  for (const Graph::EdgeFigures& edge : figures.edges)
    event.edges.push_back({edge.from, edge.to, edge.packets, edge.waited_seconds, edge.level});
  event.devices = devices_of(run, figures);
  event.waited_for_data_seconds = figures.waited_for_data_seconds;
  event.waited_for_ranks_seconds = figures.waited_for_ranks_seconds;
  event.waited_for_step_seconds = figures.waited_for_step_seconds;
  event.waited_for_credit_seconds = figures.waited_for_credit_seconds;
  event.data_threads = data_threads;
  event.io_threads = static_cast<int>(run.pipeline().run.io_threads);
  event.resident_bytes = resident_bytes();
  return event;
}

}  // namespace

void TelemetryMeter::resume() {
  computes_.start();
  if (samples_.empty()) samples_.push_back(epoch_begin_ = now());
}

void TelemetryMeter::pause() { computes_.stop(); }

void TelemetryMeter::add_pause(const std::string& what, double seconds) {
  const auto found = std::ranges::find(stood_still_, what, &StandstillTelemetry::what);
  if (found == stood_still_.end()) {
    stood_still_.push_back({what, seconds});
  } else {
    found->seconds += seconds;
  }
}

TelemetryEvent TelemetryMeter::now() const {
  TelemetryEvent event = telemetry_of_main(run_, data_threads_);
  event.seconds = computes_.seconds();
  event.stood_still = stood_still_;
  return event;
}

const TelemetryEvent& TelemetryMeter::measure(std::uint64_t step) {
  newest_ = now();
  TelemetryEvent& event = newest_;
  event.step = step;
  while (samples_.size() > 1 && event.elapsed_seconds - samples_[1].elapsed_seconds >= kWindow) samples_.pop_front();
  if (!samples_.empty()) event.bottleneck = bottleneck_between(samples_.front(), event).text();
  if (samples_.empty() || event.elapsed_seconds - samples_.back().elapsed_seconds >= kWindow / 10) samples_.push_back(event);
  return event;
}

std::string TelemetryMeter::end_epoch() {
  TelemetryEvent event = now();
  std::string text = bottleneck_between(epoch_begin_, event).text();
  epoch_begin_ = std::move(event);
  return text;
}

}  // namespace millrace
