#include "report/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/output_file.h"
#include "util/characters.h"
#include "util/durable.h"

namespace millrace {
namespace {

constexpr std::size_t kFiguresOfAStep = 2;  // the class matrix of one step is not informative

// A bad sample as an event for observers.
BadSampleEvent bad_sample_event(std::string_view graph, const Sample& sample, std::string_view action) {
  BadSampleEvent event;
  event.graph = graph;
  event.place = sample.place();
  event.path = name_text(sample.url);
  event.member = name_text(sample.member);
  event.offset = sample.offset;
  event.stage = sample.fault ? sample.fault->stage : "";
  event.cause = sample.fault ? sample.fault->cause : "";
  event.action = action;
  event.epoch = sample.key.epoch + 1;
  event.position = sample.key.position;
  event.index = sample.key.index;
  event.attempt = sample.key.attempt;
  return event;
}

}  // namespace

RunLog::RunLog(Options options, Observers& observers, const Requests& requests)
    : options_(std::move(options)),
      observers_(observers),
      requests_(requests),
      findings_{.numbers = NumberWatch({.skips = options_.skips,
                                        .most_in_a_row = options_.most_in_a_row,
                                        .warn = [this](std::string text) { observers_.warn(std::move(text)); }}),
                .bad_samples = BadSamples(observers),
                .epochs = EpochSums(options_.output),
                .steps = StepLog(
                    {.graph = options_.stepping_graph, .every = options_.log_every, .are_reported = options_.steps_are_reported},
                    observers)} {}

// For people only. Nothing reads it, so a resumed run need not write it again.
void keep_pipeline(const Value& pipeline, bool resumes, RunServices& run) {
  const std::filesystem::path folder = run.output_folder(), copy = folder / "pipeline.toml";
  if (resumes) remove_abandoned_files(folder);
  const std::string text = to_toml(pipeline);
  if (resumes && !is_special_file(copy)) {
    std::ifstream file(copy, std::ios::binary);
    if (file && std::string(std::istreambuf_iterator<char>(file), {}) == text) return;
  }
  try {
    OutputFile file(copy.string());
    file.write(text);
    file.commit();
  } catch (const Error& error) {
    if (!resumes) fail(ErrorKind::run, "{}", error.what());
    run.warn(fmt::format("the run's copy of the pipeline stays as it was: {}", error.what()));
  }
}

void RunLog::report(const StepReport& report) {
  const std::uint64_t pass = findings_.epochs.passes(report.graph);
  if (reporter_ != nullptr) reporter_->send(report, pass);
  this->report(0, pass, report);
}

void RunLog::report(int rank, std::uint64_t pass, const StepReport& report) {
  const Lock lock(mutex_);
  if (!joint_) return take(report);
  if (pass < findings_.epochs.passes(report.graph)) return;  // belongs to a stopped pass
  if (const auto whole = joint_->add(rank, pass, report)) take(whole->report);
}

void RunLog::take(const StepReport& report) {
  const GraphSums step{report.loss, report.sums, report.samples, 1, report.stream_hash, options_.output};
  findings_.epochs.add(report.graph, report.epoch, step);
  if (report.graph != options_.stepping_graph) return;
  StepLog::Scalars scalars;
  for (const auto& [name, sums] : report.auxiliary) {
    if (sums.weight() == 0) continue;
    const std::string figure = fmt::format("loss.{}", name);
    findings_.numbers.add(report.step, figure, scalars[figure] = quotient(sums.loss(), sums.weight()));
  }
  findings_.numbers.add(report.step, "loss", report.sums.loss());
  if (!options_.reports_steps) return;
  findings_.steps.report(report.step, {report.epoch, report.samples, step.figures(kFiguresOfAStep), std::move(scalars)});
}

void RunLog::scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) {
  if (graph != options_.stepping_graph) return;
  findings_.numbers.add(step, name, value);
  if (options_.reports_steps) findings_.steps.scalar(step, name, value);
}

void RunLog::promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) {
  if (graph == options_.stepping_graph && options_.reports_steps) findings_.steps.promise(step, name);
}

void RunLog::not_finite(std::string_view graph, std::uint64_t step, std::string_view what) {
  if (graph == options_.stepping_graph) findings_.numbers.not_finite(step, what);
}

void RunLog::set_dry_run(bool on) {
  is_dry_run_ = on;
  findings_.bad_samples.forget_held();
}

void RunLog::bad_sample(std::string_view graph, const Sample& sample, std::string_view action) {
  BadSampleEvent event = bad_sample_event(graph, sample, action);
  if (is_dry_run_ && action != "fatal") return findings_.bad_samples.hold(std::move(event));
  findings_.bad_samples.add(std::move(event));
}

void BadSamples::add(BadSampleEvent event) {
  const Lock lock(mutex_);
  const SavedState::BadSample sample{event.graph, event.epoch, event.position, event.attempt};
  ahead_.insert(sample);
  if (event.action == "skipped") ++skipped_[event.graph];
  if (repeated_.erase(sample) > 0) return;
  event.count = ++count_;
  observers_.send(std::move(event));
}

std::uint64_t BadSamples::count() const {
  const Lock lock(mutex_);
  return count_;
}

std::uint64_t BadSamples::skipped(std::string_view graph) const {
  const Lock lock(mutex_);
  const auto found = skipped_.find(graph);
  return found == skipped_.end() ? 0 : found->second;
}

void BadSamples::hold(BadSampleEvent event) {
  const Lock lock(mutex_);
  held_.push_back(std::move(event));
}

void BadSamples::forget_held() {
  const Lock lock(mutex_);
  held_.clear();
}

void BadSamples::report_held() {
  std::vector<BadSampleEvent> events;
  {
    const Lock lock(mutex_);
    events.swap(held_);
  }
  for (BadSampleEvent& event : events) add(std::move(event));
}

std::uint64_t BadSamples::held(std::string_view graph) const {
  const Lock lock(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count(held_, graph, &BadSampleEvent::graph));
}

void BadSamples::save(SavedState& state) const {
  const Lock lock(mutex_);
  state.bad_samples = count_;
  state.bad_and_ahead.assign(ahead_.begin(), ahead_.end());
}

void BadSamples::restore(const SavedState& state) {
  const Lock lock(mutex_);
  count_ = state.bad_samples;
  ahead_.insert(state.bad_and_ahead.begin(), state.bad_and_ahead.end());
  repeated_ = ahead_;
}

void BadSamples::done(std::string_view graph, std::uint64_t epoch, std::uint64_t position) {
  const Lock lock(mutex_);
  const auto is_done = [&](const SavedState::BadSample& sample) {
    return sample.graph == graph && std::pair(sample.epoch - 1, sample.position) < std::pair(epoch, position);
  };
  std::erase_if(ahead_, is_done);
  std::erase_if(repeated_, is_done);
}

void StepLog::report(std::uint64_t step, Report report) {
  const Lock lock(mutex_);
  Pending& pending = pending_[step];
  pending.reported = true;
  pending.report.scalars.merge(report.scalars);
  report.scalars = std::move(pending.report.scalars);
  pending.report = std::move(report);
  report_if_complete(step);
}

void StepLog::scalar(std::uint64_t step, std::string_view name, double value) {
  const Lock lock(mutex_);
  Pending& pending = pending_[step];
  pending.report.scalars[std::string(name)] = value;
  if (pending.promised.erase(std::string(name)) > 0) report_if_complete(step);
}

void StepLog::promise(std::uint64_t step, std::string_view name) {
  const Lock lock(mutex_);
  pending_[step].promised.emplace(name);
}

void StepLog::done(std::uint64_t step) {
  const Lock lock(mutex_);
  pending_[step].done = true;
  report_if_complete(step);
}

bool StepLog::has_reported_until(std::uint64_t step) const {
  const Lock lock(mutex_);
  return pending_.empty() || pending_.begin()->first >= step;
}

void StepLog::times_from_now() {
  const Lock lock(mutex_);
  last_step_seconds_ = observers_.elapsed_seconds();
}

void StepLog::report_if_complete(std::uint64_t step) {
  const auto found = pending_.find(step);
  const Pending& pending = found->second;
  if ((setting_.are_reported && !pending.reported) || !pending.done || !pending.promised.empty()) return;
  const double now = observers_.elapsed_seconds();
  if (step % setting_.every == 0) {
    StepEvent event;
    event.graph = setting_.graph;
    event.epoch = pending.reported ? pending.report.epoch + 1 : 0;
    event.step = step + 1;
    event.reported = pending.reported;
    event.figures = pending.report.figures;
    event.scalars.assign(pending.report.scalars.begin(), pending.report.scalars.end());
    event.images_per_second = pending.report.samples / std::max(now - last_step_seconds_, 1e-9);
    observers_.send(std::move(event));
  }
  last_step_seconds_ = now;
  pending_.erase(found);
}

}  // namespace millrace
