// Who listens to a run: each observer has a queue and a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "millrace/observer.h"
#include "millrace/util/telemetry_event.h"

namespace millrace {

using ObserverEvent = std::variant<RunStart, StepEvent, EpochEvent, PassEvent, CheckpointEvent, BadSampleEvent, WarningEvent,
                                   RequestEvent, TickEvent, TelemetryEvent, RunEnd>;

// Gives each event to every observer. tell() never blocks, and is called on any thread; the rest is called by one thread.
class Observers {
 public:
  static constexpr std::size_t kMostBehind = 1024;  // events that an observer with Delivery::all may have to catch up with
  static constexpr std::size_t kMostKept = 64;      // steps that wait for an observer with Delivery::latest
  // Seconds that the end of a run waits for an observer with Delivery::latest.
  struct Patience {
    double catch_up = 2;  // then it is told the end alone
    double call = 15;     // then it is left alone in a call that does not return, such as a write into a full pipe
  };
  // Called about 20 times a second with the name of the observer that the caller waits for.
  using Waiting = std::function<void(const std::string& observer)>;

  Observers();
  explicit Observers(const Patience& patience);
  ~Observers();  // when each has been told what was told so far; one with Delivery::latest has its Patience for that

  // `control` outlives this. REQUIRES: nothing was told yet.
  void add(const std::string& name, Delivery delivery, std::shared_ptr<RunObserver> observer, RunControl& control);

  // Stamps it with the seconds since the run began. A warning with the text of an earlier one is dropped.
  void tell(ObserverEvent event);
  void warn(std::string message) { tell(WarningEvent{std::move(message)}); }
  std::set<std::string> warnings() const;  // the texts of those that were told
  double elapsed_seconds() const;
  // `seconds`: that the run has taken before, in other processes.
  void restart_clock(double seconds = 0) {
    begin_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // The run begins. Returns when every observer with Delivery::all has started; throws what it threw, with its name.
  void start(RunStart event, const Waiting& waiting);
  // Returns when every observer with Delivery::all has flushed what was told so far.
  void flush(const Waiting& waiting);
  // Returns when every observer with Delivery::all has what was told so far on the disk. On any thread.
  void sync();
  // The run is over; a run that never began has no end. Returns when every observer has flushed and knows; those with
  // Delivery::latest are given their Patience, and the others are warned of one that is left alone. Throws what one with
  // Delivery::all threw at its end, with its name.
  void end(RunEnd event, const Waiting& waiting);

  // An observer with Delivery::all that has at least so many events to catch up with; "": none.
  std::string behind(std::size_t events) const;

 private:
  class Queue;
  using Clock = std::chrono::steady_clock;
  bool was_warned(const std::string& text);  // and is from now on

  std::atomic<Clock::time_point> begin_;
  bool started_ = false;
  mutable Mutex warned_mutex_;
  std::set<std::string> warned_ MILLRACE_GUARDED_BY(warned_mutex_);
  const Patience patience_;
  std::vector<std::shared_ptr<Queue>> queues_;  // the thread of one that is left alone has it as well
};

}  // namespace millrace
