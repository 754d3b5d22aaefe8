#include "run/run_log.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "millrace/error.h"
#include "millrace/loss.h"

namespace millrace {
namespace {

constexpr std::size_t kFiguresOfAStep = 2;     // a class matrix of one step says little
constexpr std::uint64_t kBadSamplesNamed = 5;  // on standard error; the ledger has them all

std::FILE* open_file(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) fail(ErrorKind::run, "'{}' cannot be written: {}", path.string(), std::strerror(errno));
  return file;
}

}  // namespace

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::filesystem::path make_run_folder(const std::filesystem::path& parent, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path base = parent / name;
  std::error_code error;
  fs::create_directories(base, error);
  const std::string stamp = fmt::format("{:%Y-%m-%dT%H-%M-%S}", fmt::localtime(std::time(nullptr)));
  for (int attempt = 0; !error; ++attempt) {
    const fs::path folder = base / (attempt == 0 ? stamp : fmt::format("{}-{}", stamp, attempt + 1));
    if (fs::create_directory(folder, error)) return folder;
  }
  fail(ErrorKind::usage, "the run folder cannot be made in '{}': {}; choose another with run.folder", base.string(),
       error.message());
}

RunLog::RunLog(Options options) : options_(std::move(options)) {}

void RunLog::open(const std::filesystem::path& folder, const Value& pipeline) {
  folder_ = folder;
  start_ = Clock::now();
  if (folder_.empty()) return;
  metrics_ = open_file(folder_ / "metrics.jsonl");
  std::FILE* copy = open_file(folder_ / "pipeline.toml");
  fmt::print(copy, "{}", to_toml(pipeline));
  std::fclose(copy);
}

RunLog::~RunLog() {
  if (metrics_) std::fclose(metrics_);
  if (ledger_) std::fclose(ledger_);
}

void RunLog::Sums::add(const Sums& others) {
  if (!loss) loss = others.loss;
  sums.add(others.sums);
  samples += others.samples;
  steps += others.steps;
  stream_hash += others.stream_hash;
}

void RunLog::Sums::add_figures(Json& line, std::size_t most) const {
  if (!loss || sums.values.empty()) return;
  for (const LossFigure& figure : loss->info().figures) {
    if (most-- == 0) return;
    line[figure.name] = figure.finish(sums.values);
  }
}

std::string RunLog::Sums::text(int decimals, std::size_t most) const {
  std::string text;
  if (!loss || sums.values.empty()) return text;
  for (const LossFigure& figure : loss->info().figures) {
    if (most-- == 0) break;
    const double value = figure.finish(sums.values);
    std::string name = figure.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (!text.empty()) text += "  ";
    text += figure.percent ? fmt::format("{} {:.{}f} %", name, 100 * value, decimals - 2)
                           : fmt::format("{} {:.{}f}", name, value, decimals);
  }
  return text;
}

void RunLog::report(const StepReport& report) {
  const std::lock_guard lock(mutex_);
  Sums& epoch = epochs_[{std::string(report.graph), report.epoch}];
  const Sums step{report.loss, report.sums, report.samples, 1, report.stream_hash};
  epoch.add(step);
  if (report.graph != options_.stepping_graph) return;
  Pending& pending = pending_[report.step];
  pending.reported = true;
  pending.epoch = report.epoch;
  pending.sums = step;
  write_step_if_whole(report.step);
}

void RunLog::scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) {
  if (graph != options_.stepping_graph) return;
  const std::lock_guard lock(mutex_);
  Pending& pending = pending_[step];
  pending.scalars[std::string(name)] = value;
  if (pending.promised.erase(std::string(name)) > 0) write_step_if_whole(step);
}

void RunLog::promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) {
  if (graph != options_.stepping_graph) return;
  const std::lock_guard lock(mutex_);
  pending_[step].promised.emplace(name);
}

void RunLog::step_done(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  pending_[step].done = true;
  write_step_if_whole(step);
}

void RunLog::write_step_if_whole(std::uint64_t step) {
  const auto found = pending_.find(step);
  const Pending& pending = found->second;
  if ((options_.steps_are_reported && !pending.reported) || !pending.done || !pending.promised.empty()) return;
  const double now = elapsed_seconds();
  if (step % options_.log_every == 0) {
    Json line = {{"event", "step"}};
    if (pending.reported) line["epoch"] = pending.epoch + 1;
    line["step"] = step + 1;
    pending.sums.add_figures(line, kFiguresOfAStep);
    for (const auto& [name, value] : pending.scalars) line[name] = value;
    if (pending.reported) line["images_per_second"] = pending.sums.samples / std::max(now - last_step_seconds_, 1e-9);
    line["elapsed_seconds"] = now;
    write_line(metrics_, line);
    if (options_.json) write_line(stdout, line);
  }
  last_step_seconds_ = now;
  pending_.erase(found);
}

void RunLog::bad_sample(std::string_view graph, const Sample& sample, std::string_view action) {
  const std::lock_guard lock(mutex_);
  ++bad_samples_;
  if (action == "skipped") ++skipped_[std::string(graph)];
  const std::string stage = sample.fault ? sample.fault->stage : "";
  const std::string cause = sample.fault ? sample.fault->cause : "";
  if (bad_samples_ <= kBadSamplesNamed && !options_.quiet) {
    fmt::print(stderr, "bad sample {}: '{}': {} ({})\n", action, sample.place(), cause, stage);
    if (bad_samples_ == kBadSamplesNamed)
      fmt::print(stderr, "further bad samples are counted, and named in quarantine.jsonl only\n");
  }
  if (folder_.empty()) return;
  if (!ledger_) ledger_ = open_file(folder_ / "quarantine.jsonl");
  write_line(ledger_, {{"graph", graph},
                       {"path", sample.url},
                       {"member", sample.member},
                       {"offset", sample.offset},
                       {"stage", stage},
                       {"cause", cause},
                       {"action", action},
                       {"epoch", sample.key.epoch + 1},
                       {"position", sample.key.position},
                       {"index", sample.key.index},
                       {"attempt", sample.key.attempt}});
}

void RunLog::warn(std::string_view message) { fmt::print(stderr, "warning: {}\n", message); }

RunLog::Sums RunLog::sums(std::string_view graph, std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  const auto found = epochs_.find({std::string(graph), epoch});
  return found == epochs_.end() ? Sums{} : found->second;
}

void RunLog::forget(std::string_view graph, std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  epochs_.erase({std::string(graph), epoch});
}

std::uint64_t RunLog::bad_samples() const {
  const std::lock_guard lock(mutex_);
  return bad_samples_;
}

std::uint64_t RunLog::skipped_samples(std::string_view graph) const {
  const std::lock_guard lock(mutex_);
  const auto found = skipped_.find(graph);
  return found == skipped_.end() ? 0 : found->second;
}

void RunLog::event(Json line) {
  const std::lock_guard lock(mutex_);
  line["elapsed_seconds"] = elapsed_seconds();
  write_line(metrics_, line);
  if (options_.json) write_line(stdout, line);
}

double RunLog::elapsed_seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

// A full disk must not end a training that could go on; but it is said.
void RunLog::write_line(std::FILE* file, const Json& line) {
  if (!file) return;
  // A path may hold bytes that are no UTF-8; they are replaced rather than lost with the line.
  fmt::print(file, "{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (std::fflush(file) == 0 || file == stdout || lines_are_lost_) return;
  lines_are_lost_ = true;
  warn(fmt::format("lines of metrics.jsonl or quarantine.jsonl in '{}' are lost: {}", folder_.string(), std::strerror(errno)));
}

}  // namespace millrace
