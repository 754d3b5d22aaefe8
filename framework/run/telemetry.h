// Measurements of the parts of a run, as sent to observers.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/util/telemetry_event.h"
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
  TelemetryEvent epoch_begin_;        // as things were then
  TelemetryEvent newest_;
};

}  // namespace millrace
