#include "report/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>

#include "files/durable.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr std::size_t kFiguresOfAStep = 2;  // a class matrix of one step says little

}  // namespace

RunLog::RunLog(Options options, Observers& observers, const Requests& requests)
    : options_(std::move(options)),
      observers_(observers),
      requests_(requests),
      numbers_({
          .skips = options_.skips,
          .most_in_a_row = options_.most_in_a_row,
          .warn = [this](std::string text) { observers_.warn(std::move(text)); },
      }),
      bad_samples_(observers) {}

// For people to read. Nothing is read from it, so a run that goes on needs no new one.
void RunLog::open(const std::filesystem::path& folder, const Value& pipeline, bool goes_on) {
  folder_ = folder;
  if (folder_.empty()) return;
  if (goes_on) remove_abandoned_files(folder_);
  const std::filesystem::path copy = folder_ / "pipeline.toml";
  const std::string text = to_toml(pipeline);
  if (goes_on && !is_special_file(copy)) {
    std::ifstream file(copy, std::ios::binary);
    if (file && std::string(std::istreambuf_iterator<char>(file), {}) == text) return;
  }
  try {
    OutputFile file(copy.string());
    file.write(text);
    file.commit();
  } catch (const Error& error) {
    if (!goes_on) fail(ErrorKind::run, "{}", error.what());
    warn(fmt::format("the run's copy of the pipeline stays as it was: {}", error.what()));
  }
}

void RunLog::Sums::add(const Sums& others) {
  if (!loss) loss = others.loss;
  sums.add(others.sums);
  samples += others.samples;
  steps += others.steps;
  stream_hash += others.stream_hash;
  outputs = std::max(outputs, others.outputs);
}

bool RunLog::Sums::measured_nothing() const { return loss && !sums.values.empty() && sums.weight() == 0; }

std::vector<Figure> RunLog::Sums::figures(std::size_t most) const {
  std::vector<Figure> made;
  if (!loss || sums.values.empty() || measured_nothing()) return made;
  for (const LossFigure& figure : loss->info().figures) {
    if (most-- == 0) break;
    if (outputs > 0 && outputs < figure.least_outputs) continue;
    double value = figure.finish(sums.values);
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // its sign says nothing, and would be printed
    made.push_back({figure.name, value, figure.percent, figure.better == LossFigure::Better::higher});
  }
  return made;
}

std::vector<double> RunLog::Sums::class_matrix() const {
  if (!loss || !loss->info().class_matrix || sums.values.empty() || measured_nothing()) return {};
  return {sums.values.begin() + static_cast<std::ptrdiff_t>(loss->info().sums.size()), sums.values.end()};
}

void RunLog::report(const StepReport& report) {
  if (reporter_ != nullptr) reporter_->send(report);
  this->report(0, report);
}

void RunLog::report(int rank, const StepReport& report) {
  const Lock lock(mutex_);
  if (!joint_) return take(report);
  if (const auto whole = joint_->add(rank, report)) take(whole->report);
}

void RunLog::take(const StepReport& report) {
  Sums& epoch = epochs_[{std::string(report.graph), report.epoch}];
  const Sums step{report.loss, report.sums, report.samples, 1, report.stream_hash, options_.outputs};
  epoch.add(step);
  if (report.graph != options_.stepping_graph) return;
  std::map<std::string, double, std::less<>> scalars;
  for (const auto& [name, sums] : report.auxiliary) {
    if (sums.weight() == 0) continue;
    const std::string figure = fmt::format("loss.{}", name);
    numbers_.look(report.step, figure, scalars[figure] = quotient(sums.loss(), sums.weight()));
  }
  numbers_.look(report.step, "loss", report.sums.loss());
  if (!options_.tells_steps) return;
  Pending& pending = pending_[report.step];
  pending.reported = true;
  pending.epoch = report.epoch;
  pending.samples = report.samples;
  pending.figures = step.figures(kFiguresOfAStep);
  pending.scalars.merge(scalars);
  tell_step_if_whole(report.step);
}

void RunLog::scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) {
  if (graph != options_.stepping_graph) return;
  numbers_.look(step, name, value);
  if (!options_.tells_steps) return;
  const Lock lock(mutex_);
  Pending& pending = pending_[step];
  pending.scalars[std::string(name)] = value;
  if (pending.promised.erase(std::string(name)) > 0) tell_step_if_whole(step);
}

void RunLog::promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) {
  if (graph != options_.stepping_graph || !options_.tells_steps) return;
  const Lock lock(mutex_);
  pending_[step].promised.emplace(name);
}

void RunLog::not_finite(std::string_view graph, std::uint64_t step, std::string_view what) {
  if (graph == options_.stepping_graph) numbers_.not_finite(step, what);
}

void RunLog::times_steps_from_now() {
  const Lock lock(mutex_);
  last_step_seconds_ = observers_.elapsed_seconds();
}

void RunLog::step_done(std::uint64_t step) {
  const Lock lock(mutex_);
  pending_[step].done = true;
  tell_step_if_whole(step);
}

bool RunLog::has_told_until(std::uint64_t step) const {
  const Lock lock(mutex_);
  return pending_.empty() || pending_.begin()->first >= step;
}

void RunLog::tell_step_if_whole(std::uint64_t step) {
  const auto found = pending_.find(step);
  const Pending& pending = found->second;
  if ((options_.steps_are_reported && !pending.reported) || !pending.done || !pending.promised.empty()) return;
  const double now = observers_.elapsed_seconds();
  if (step % options_.log_every == 0) {
    StepEvent event;
    event.graph = options_.stepping_graph;
    event.epoch = pending.reported ? pending.epoch + 1 : 0;
    event.step = step + 1;
    event.reported = pending.reported;
    event.figures = pending.figures;
    event.scalars.assign(pending.scalars.begin(), pending.scalars.end());
    event.images_per_second = pending.samples / std::max(now - last_step_seconds_, 1e-9);
    observers_.tell(std::move(event));
  }
  last_step_seconds_ = now;
  pending_.erase(found);
}

void RunLog::set_dry_run(bool on) {
  is_dry_run_ = on;
  bad_samples_.forget_held();
}

void RunLog::bad_sample(std::string_view graph, const Sample& sample, std::string_view action) {
  BadSampleEvent event = bad_sample_event(graph, sample, action);
  if (is_dry_run_ && action != "fatal") return bad_samples_.hold(std::move(event));
  bad_samples_.add(std::move(event));
}

RunLog::Sums RunLog::sums(std::string_view graph, std::uint64_t epoch) const {
  const Lock lock(mutex_);
  const auto found = epochs_.find({std::string(graph), epoch});
  return found == epochs_.end() ? Sums{} : found->second;
}

void RunLog::restore(std::string_view graph, std::uint64_t epoch, Sums sums) {
  const Lock lock(mutex_);
  sums.outputs = options_.outputs;
  epochs_[{std::string(graph), epoch}] = std::move(sums);
}

void RunLog::forget(std::string_view graph, std::uint64_t epoch) {
  const Lock lock(mutex_);
  epochs_.erase({std::string(graph), epoch});
}

}  // namespace millrace
