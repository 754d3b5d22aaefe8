// metrics.jsonl: a run's results for programs.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/json_lines.h"

namespace millrace {
namespace {

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

void add_figures(JsonLine& line, const std::vector<Figure>& figures) {
  for (const Figure& figure : figures) line.add(figure.name, figure.value);
}

// One line per event, in order; `elapsed_seconds` comes last.
//
// A graph's first line with a metric describes it: "percent" lists shares, from 0 to 1; "higher_is_better" and "details"
// (numerous ones, such as those of each class) list the metrics with these properties.
//
// A run that resumes from a checkpoint appends to its file, beginning with {"event":"resume","step":N}: earlier lines with a
// `step` above N belong to repeated steps and are void. So each line that counts has its step.
class MetricsObserver final : public RunObserver {
 public:
  struct Params {
    bool standard_output = false;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("metrics").text("Writes metrics.jsonl into the run's folder: steps, epochs and passes, one JSON object a line.");
    d.by_default().params.add("standard_output", &Params::standard_output).text("also write the lines to standard output");
  }
  explicit MetricsObserver(const Params& params) : params_(params) {}

  void start(const RunStart& e, RunControl& control) override {
    control_ = &control;
    if (!e.folder.empty()) {
      file_.emplace((e.folder / "metrics.jsonl").string(), [&control](std::string_view text) { control.warn(text); }, e.resumed);
    }
    JsonLine line;
    line.add("event", e.resumed ? "resume" : "start");
    if (e.resumed) line.add("step", e.checkpoint_step);
    line.add("name", e.name).add("file", e.file).add("seed", e.seed).add("epochs", e.epochs);
    write(line.add("first_step", e.first_step).add("steps", e.steps).add("replicas", e.replicas), e.elapsed_seconds);
  }

  void step(const StepEvent& e) override {
    JsonLine line;
    line.add("event", "step");
    if (e.reported) line.add("epoch", e.epoch);
    line.add("step", e.step);
    add_figures(line, e.figures);
    add_kinds(line, e.graph, e.figures);
    for (const auto& [name, value] : e.scalars) line.add(name, value);
    if (e.reported) line.add("images_per_second", e.images_per_second);
    write(line, e.elapsed_seconds);
  }

  void epoch(const EpochEvent& e) override {
    JsonLine line;
    line.add("event", "epoch").add("epoch", e.epoch).add("step", e.step);
    add_figures(line, e.figures);
    add_kinds(line, e.graph, e.figures);
    line.add("images_per_second", e.images_per_second).add("seconds", e.seconds);
    if (e.reported) line.add("stream_hash", hex(e.stream_hash));
    line.add("resident_bytes", e.resident_bytes);
    if (!e.waits_for.empty()) line.add("waits_for", e.waits_for);
    write(line, e.elapsed_seconds);
  }

  void pass(const PassEvent& e) override {
    JsonLine line;
    line.add("event", e.reported ? "validate" : "pass").add("graph", e.graph).add("epoch", e.epoch).add("step", e.step);
    if (e.reported) {
      line.add("samples", e.samples);
    } else {
      line.add("samples", static_cast<std::uint64_t>(e.samples));
    }
    add_figures(line, e.figures);
    add_kinds(line, e.graph, e.figures);
    if (!e.only_class.empty()) line.add("only_class", e.only_class);
    if (e.best_step != 0) line.add("best_step", e.best_step);
    line.add("images_per_second", e.images_per_second).add("seconds", e.seconds);
    if (e.reported) line.add("stream_hash", hex(e.stream_hash));
    write(line, e.elapsed_seconds);
  }

  void checkpoint(const CheckpointEvent& e) override {
    JsonLine line;
    line.add("event", "checkpoint").add("step", e.step).add("path", e.path.string()).add("best", e.best);
    line.add("stood_still_seconds", e.stood_still_seconds).add("seconds", e.seconds).add("bytes", e.bytes);
    write(line, e.elapsed_seconds);
  }

  // Only on standard output: the file is about steps. May come before start() and after end().
  void warning(const WarningEvent& e) override {
    JsonLine line;
    if (params_.standard_output && !output_is_gone_) print(line.add("event", "warning").add("text", e.text).text() + "\n");
  }

  // A stop without a reason is in the line of the end, and a checkpoint in its own.
  void request(const RequestEvent& e) override {
    if (e.state != RequestEvent::State::completed || (e.kind == RequestKind::stop && e.text.empty())) return;
    if (e.kind == RequestKind::checkpoint) return;
    JsonLine line;
    line.add("event", "request").add("request", to_string(e.kind)).add("by", e.by).add("step", e.step);
    if (e.kind == RequestKind::rate_factor) line.add("factor", e.factor);
    if (!e.text.empty()) line.add("text", e.text);
    write(line, e.elapsed_seconds);
  }

  void end(const RunEnd& e) override {
    if (e.error.empty()) {  // a failed run has no end
      JsonLine line;
      line.add("event", "end").add("epoch", e.epoch).add("step", e.step).add("bad_samples", e.bad_samples);
      if (e.signal != 0) line.add("signal", e.signal);
      write(line, e.elapsed_seconds);
    }
    if (file_) file_->finish();
  }

  void sync() override {
    if (file_) file_->sync();
  }

 private:
  void add_kinds(JsonLine& line, const std::string& graph, const std::vector<Figure>& figures) {
    std::vector<std::string> shares, higher, details;
    for (const Figure& figure : figures) {
      if (!announced_.insert({graph, figure.name}).second) continue;
      if (figure.percent) shares.push_back(figure.name);
      if (figure.higher_is_better) higher.push_back(figure.name);
      if (figure.is_detail) details.push_back(figure.name);
    }
    if (!shares.empty()) line.add("percent", shares);
    if (!higher.empty()) line.add("higher_is_better", higher);
    if (!details.empty()) line.add("details", details);
  }

  void write(JsonLine& line, double elapsed_seconds) {
    const std::string text = line.add("elapsed_seconds", elapsed_seconds).text();
    if (file_) file_->write(text);
    if (params_.standard_output && !output_is_gone_) print(text + "\n");
  }

  // After a partial line no other follows. A reader that has seen enough, such as `head`, causes no message; for other errors the
  // program exits with an error, since the stream keeps it.
  void print(const std::string& line) {
    errno = 0;
    if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0) return;
    output_is_gone_ = true;
    if (errno == EPIPE) return std::clearerr(stdout);
    if (control_ != nullptr) control_->warn(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }

  const Params params_;
  RunControl* control_ = nullptr;
  std::optional<LineFile> file_;                        // empty in a run without a folder
  std::set<std::pair<std::string, std::string>> announced_;  // graphs and metrics
  bool output_is_gone_ = false;
};

MILLRACE_PART { registry.add_observer<MetricsObserver>(); }

}  // namespace
}  // namespace millrace
