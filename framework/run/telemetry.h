// What the parts of a run have done, as observers are told.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/util/telemetry_event.h"
#include "run/run_context.h"
#include "run/stopwatch.h"

namespace millrace {

// Looks at the main graph, and says what the run has waited for. One thread. `run` outlives it.
class TelemetryMeter {
 public:
  explicit TelemetryMeter(const RunContext& run) : run_(run), data_threads_(run.prepared.data_threads()) {}

  void goes_on();                                             // the main graph computes from here on
  void stands_still();                                        // it does not, from here on
  void stood_still(const std::string& what, double seconds);  // for that

  const TelemetryEvent& look(std::uint64_t step);           // `step`: done
  const TelemetryEvent& newest() const { return newest_; }  // of the last look
  std::string end_epoch();                                  // what the run waited for since the last one; "": not known

 private:
  static constexpr double kLookedBack = 5;  // seconds that TelemetryEvent::bottleneck is about

  TelemetryEvent now() const;  // without `step` and `bottleneck`

  const RunContext& run_;
  const int data_threads_;
  Stopwatch computes_;  // in this process
  std::vector<StandstillTelemetry> stood_still_;
  std::deque<TelemetryEvent> looks_;  // of the last kLookedBack seconds, the first one older
  TelemetryEvent epoch_begin_;        // as things were then
  TelemetryEvent newest_;
};

}  // namespace millrace
