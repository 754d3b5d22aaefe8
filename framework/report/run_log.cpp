#include "report/run_log.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "files/durable.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr std::size_t kFiguresOfAStep = 2;  // the class matrix of one step is not informative

}  // namespace

RunLog::RunLog(Options options, Observers& observers, const Requests& requests)
    : options_(std::move(options)),
      observers_(observers),
      requests_(requests),
      found_{.numbers = NumberWatch({.skips = options_.skips,
                                     .most_in_a_row = options_.most_in_a_row,
                                     .warn = [this](std::string text) { observers_.warn(std::move(text)); }}),
             .bad_samples = BadSamples(observers),
             .epochs = EpochSums(options_.output),
             .steps = StepLog(
                 {.graph = options_.stepping_graph, .every = options_.log_every, .are_reported = options_.steps_are_reported},
                 observers)} {}

// For people only. Nothing reads it, so a resumed run need not write it again.
void keep_pipeline(const Value& pipeline, bool goes_on, RunServices& run) {
  const std::filesystem::path folder = run.output_folder(), copy = folder / "pipeline.toml";
  if (goes_on) remove_abandoned_files(folder);
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
    run.warn(fmt::format("the run's copy of the pipeline stays as it was: {}", error.what()));
  }
}

void RunLog::report(const StepReport& report) {
  const std::uint64_t pass = found_.epochs.passes(report.graph);
  if (reporter_ != nullptr) reporter_->send(report, pass);
  this->report(0, pass, report);
}

void RunLog::report(int rank, std::uint64_t pass, const StepReport& report) {
  const Lock lock(mutex_);
  if (!joint_) return take(report);
  if (pass < found_.epochs.passes(report.graph)) return;  // belongs to a stopped pass
  if (const auto whole = joint_->add(rank, pass, report)) take(whole->report);
}

void RunLog::take(const StepReport& report) {
  const GraphSums step{report.loss, report.sums, report.samples, 1, report.stream_hash, options_.output};
  found_.epochs.add(report.graph, report.epoch, step);
  if (report.graph != options_.stepping_graph) return;
  StepLog::Scalars scalars;
  for (const auto& [name, sums] : report.auxiliary) {
    if (sums.weight() == 0) continue;
    const std::string figure = fmt::format("loss.{}", name);
    found_.numbers.look(report.step, figure, scalars[figure] = quotient(sums.loss(), sums.weight()));
  }
  found_.numbers.look(report.step, "loss", report.sums.loss());
  if (!options_.tells_steps) return;
  found_.steps.report(report.step, {report.epoch, report.samples, step.figures(kFiguresOfAStep), std::move(scalars)});
}

void RunLog::scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) {
  if (graph != options_.stepping_graph) return;
  found_.numbers.look(step, name, value);
  if (options_.tells_steps) found_.steps.scalar(step, name, value);
}

void RunLog::promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) {
  if (graph == options_.stepping_graph && options_.tells_steps) found_.steps.promise(step, name);
}

void RunLog::not_finite(std::string_view graph, std::uint64_t step, std::string_view what) {
  if (graph == options_.stepping_graph) found_.numbers.not_finite(step, what);
}

void RunLog::set_dry_run(bool on) {
  is_dry_run_ = on;
  found_.bad_samples.forget_held();
}

void RunLog::bad_sample(std::string_view graph, const Sample& sample, std::string_view action) {
  BadSampleEvent event = bad_sample_event(graph, sample, action);
  if (is_dry_run_ && action != "fatal") return found_.bad_samples.hold(std::move(event));
  found_.bad_samples.add(std::move(event));
}

}  // namespace millrace
