// millrace.prom: the state of a run for node_exporter's textfile collector.
#include "millrace/util/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

// Replaces its file atomically, so readers never see a partial one. The last text reports the end of the run: a killed run's file
// claims that it runs, and the file's age reveals it (node_textfile_mtime_seconds).
class PrometheusObserver final : public RunObserver {
 public:
  struct Params {
    std::string file = "millrace.prom";
    double every = 5;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("prometheus")
        .text(
            "Writes millrace.prom into the run's folder: progress, metrics, stages, edges and devices in Prometheus text format, "
            "for node_exporter's textfile collector.")
        .delivery(Delivery::latest);
    d.params.add("file", &Params::file)
        .text("in the run's folder, or an absolute path in the collector's folder; must end in .prom");
    d.params.add("every", &Params::every).range(0.1, 86400).text("seconds between updates");
  }
  explicit PrometheusObserver(const Params& params) : file_(params.file), every_(params.every) {
    if (file_.extension() != ".prom") {
      fail(ErrorKind::usage, "file = '{}': the collector reads files that end in .prom", params.file);
    }
  }

  void start(const RunStart& e, RunControl& control) override {
    control_ = &control;
    if (!e.folder.empty() || file_.is_absolute()) path_ = (e.folder / file_).string();
    run_ = e;
  }
  void tick(const TickEvent& e) override {
    tick_ = e;
    write_if_due();
  }
  void telemetry(const TelemetryEvent& e) override {
    telemetry_ = e;
    write_if_due();
  }
  void epoch(const EpochEvent& e) override { tick_ = tick_after(run_, e, std::move(tick_)); }
  void pass(const PassEvent& e) override {
    const auto same = std::ranges::find(passes_, e.graph, &PassEvent::graph);
    (same == passes_.end() ? passes_.emplace_back() : *same) = e;
  }
  void end(const RunEnd& e) override {
    if (e.error.empty()) {  // the last tick was before the last step
      tick_.step = e.step;
      tick_.epoch = e.epoch;
      tick_.seconds_left = 0;
    }
    write(false);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void write_if_due() {
    if (Clock::now() < due_) return;
    due_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(every_);
    write(true);
  }

  // A failing disk must not end the run; later writes are attempted.
  void write(bool running) {
    if (path_.empty()) return;
    try {
      OutputFile file(path_, OutputFile::Sync::later);
      file.write(prometheus_text(run_, running, tick_, telemetry_, passes_));
      file.commit();
    } catch (const Error& error) {
      if (!std::exchange(warned_, true)) {
        control_->warn(
            fmt::format("observer 'prometheus': '{}' keeps its old content until it can be written: {}", path_, error.what()));
      }
    }
  }

  const std::filesystem::path file_;
  const std::chrono::duration<double> every_;
  std::string path_;  // empty: writes nothing
  RunStart run_;
  RunControl* control_ = nullptr;
  TickEvent tick_;
  TelemetryEvent telemetry_;
  std::vector<PassEvent> passes_;  // the newest of each graph
  Clock::time_point due_{};
  bool warned_ = false;
};

MILLRACE_PART { registry.add_observer<PrometheusObserver>(); }

}  // namespace
}  // namespace millrace
