// Measures a run: times its epochs and passes, waits for the sums of their steps, and informs observers.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/saved_state.h"
#include "millrace/observer.h"
#include "millrace/util/telemetry_event.h"
#include "report/run_log.h"
#include "run/decide.h"
#include "run/ended.h"
#include "run/run_context.h"
#include "run/stopwatch.h"

namespace millrace {

// Samples the main graph, and reports what the run has waited for. One thread. `run` outlives it.
class TelemetryMeter {
 public:
  explicit TelemetryMeter(const RunContext& run) : run_(run), data_threads_(run.prepared.data_threads()) {}

  void resume();                                            // the main graph computes from here on
  void pause();                                             // it does not, from here on
  void add_pause(const std::string& what, double seconds);  // for that

  const TelemetryEvent& measure(std::uint64_t step);        // `step`: done
  const TelemetryEvent& newest() const { return newest_; }  // the last sample
  std::string end_epoch();                                  // what the run waited for since the last one; "": not known

 private:
  static constexpr double kWindow = 5;  // seconds that TelemetryEvent::bottleneck is about

  TelemetryEvent now() const;  // without `step` and `bottleneck`

  const RunContext& run_;
  const int data_threads_;
  Stopwatch computes_;  // in this process
  std::vector<StandstillTelemetry> stood_still_;
  std::deque<TelemetryEvent> samples_;  // of the last kWindow seconds, the first one older
  TelemetryEvent epoch_begin_;          // as things were then
  TelemetryEvent newest_;
};

// A pass over other samples than those that are trained on: steps [first, last) of graph number `graph`.
struct DonePass {
  std::size_t graph = 0;
  std::uint64_t first = 0, last = 0;
  double seconds = 0;
  std::uint64_t left_out = 0;   // bad samples
  std::uint64_t best_step = 0;  // of the best weights, where these were evaluated
};

// How far the main graph is. Its threads write this.
struct MainProgress {
  std::atomic<std::uint64_t> done = 0;  // steps whose updates are submitted
  std::atomic<bool> is_drained = false;
};

// One thread. All that it is given outlives it. `state` is what the rules of the run have decided so far.
class RunMeter {
 public:
  RunMeter(const RunContext& run, const RunState& state, const MainProgress& progress);

  void restore(const SavedState& saved);  // a resumed run is in the middle of an epoch
  void resume();                          // the main graph computes from here on
  void pause();                           // it does not, from here on
  void add_pause(const std::string& what, double seconds) { telemetry_.add_pause(what, seconds); }
  SavedState::Epoch epoch_so_far(std::uint64_t done);  // REQUIRES: it stands still, in the middle of an epoch

  // At a boundary: until all earlier steps were sent to observers.
  void await_steps(std::uint64_t done);
  // Metrics are measured before the rules decide about them, and reported afterwards.
  struct MeasuredEpoch {
    EpochEvent event;
    bool measured_nothing = false;
  };
  struct MeasuredPass {
    PassEvent event;
    bool measured_nothing = false;
  };
  MeasuredEpoch measure_epoch(std::uint64_t epoch, std::uint64_t done);
  void report(MeasuredEpoch epoch);  // throws if nothing was measured
  MeasuredPass measure_pass(const DonePass& pass);
  void report(MeasuredPass pass);
  // Until all processes have done the steps that this one has done, and their reports are there. All processes call it. Throws
  // what another process did to the group.
  void await_others(const std::string& graph, std::uint64_t epoch, std::uint64_t steps);
  void tick(const std::string& waits_for);  // "": what the stages wait for
  bool telemetry();                         // reports it when due; returns whether it did
  void last_telemetry();                    // with the last reports of all ranks' devices

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  const Measurements& end_run() const;  // what passes have measured; warns of best weights that give one class to everything

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kTick = 0.1;  // seconds
  static double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  std::uint64_t first_step_of(std::uint64_t epoch) const { return std::max(epoch * steps_per_epoch_, state_.begun_with); }
  GraphSums await_reports(const std::string& graph, std::uint64_t epoch, std::uint64_t steps);
  GraphSums take_sums(const std::string& graph, std::uint64_t first_epoch, std::uint64_t last_epoch);
  void keep_measured(const PassEvent& pass);
  bool is_best(std::uint64_t step) const;
  std::vector<Figure> figures_of(const GraphBuild& build, const GraphSums& sums) const;
  std::string only_class(const GraphBuild& build, const GraphSums& sums) const;
  void check_for_one_class(const PassEvent& pass);
  void warn_of_explosion(const PassEvent& pass) const;
  void warn_of_nothing(const std::string& graph) const;
  void warn_of_loss(const EpochEvent& epoch);
  void check_numbers(const PassEvent& pass);
  std::string left_out_text(const std::string& graph) const;

  const RunContext& run_;
  const RunState& state_;
  const MainProgress& progress_;
  const std::uint64_t steps_per_epoch_;
  bool reported_;                            // some stage reports the main graph's steps
  bool reports_steps_ = true;                // each step is reported before its boundary
  std::set<std::string> warned_of_numbers_;  // by graph
  // Passes one after the other, up to the newest, in which everything was predicted as one class.
  struct OneClass {
    int passes = 0;
    std::string name = {};          // of the class, in the newest
    std::uint64_t best_step = 0;    // of the newest one that was of the best weights so far
    std::uint64_t warned_step = 0;  // best_step when the warning was given
  };
  void warn_of_one_class(const std::string& graph, const OneClass& found) const;
  std::map<std::string, OneClass> one_class_;  // by graph
  std::optional<double> first_loss_;           // of the run's first epoch, until it is warned of
  Stopwatch training_;                         // of the epoch so far, validation apart
  // What training_ and the sums of the epoch have from before this run went on, perhaps at another pace.
  double seconds_before_ = 0, samples_before_ = 0;
  Clock::time_point ticked_;
  TelemetryMeter telemetry_;
  Measurements measured_;
};

}  // namespace millrace
