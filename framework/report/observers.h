// The observers of a run: each has a queue and a thread.
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

// Passes each event to every observer. send() never blocks and may be called on any thread; all else is called by one thread.
class Observers {
 public:
  static constexpr std::size_t kMaxBehind = 1024;  // maximum backlog for an observer with Delivery::all
  static constexpr std::size_t kMaxKept = 64;      // waiting steps for an observer with Delivery::latest
  // Seconds that the end of a run waits for an observer with Delivery::latest.
  struct Patience {
    double catch_up = 2;  // after this only the end is delivered
    double call = 15;     // after this, a call that does not return, such as a write into a full pipe, is abandoned
  };
  // Called about 20 times a second with the name of the observer that the caller waits for.
  using Waiting = std::function<void(const std::string& observer)>;

  Observers();
  explicit Observers(const Patience& patience);
  ~Observers();  // waits until all events are delivered; Patience limits this for Delivery::latest

  // `control` outlives this. REQUIRES: no event was sent yet.
  void add(const std::string& name, Delivery delivery, std::shared_ptr<RunObserver> observer, RunControl& control);

  // Stamps the event with the seconds since the run began. Drops repeated warnings.
  void send(ObserverEvent event);
  void warn(std::string message) { send(WarningEvent{std::move(message)}); }
  std::set<std::string> warnings() const;  // texts of the warnings sent
  double elapsed_seconds() const;
  // `seconds`: duration of the run so far, in earlier processes.
  void restart_clock(double seconds = 0) {
    begin_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // Begins the run. Returns when every observer with Delivery::all has started; rethrows its error, with its name.
  void start(RunStart event, const Waiting& waiting);
  // Returns when every observer with Delivery::all has flushed all events so far.
  void flush(const Waiting& waiting);
  // Returns when every observer with Delivery::all has all events so far on the disk. Callable on any thread.
  void sync();
  // Ends the run; one that never began has no end. Returns when every observer has flushed and received the end. Patience limits
  // this for Delivery::latest, and the others get a warning about an abandoned one. Rethrows the error of one with
  // Delivery::all, with its name.
  void end(RunEnd event, const Waiting& waiting);

  // An observer with Delivery::all that has a backlog of at least `events`; "" if there is none.
  std::string behind(std::size_t events) const;

 private:
  class Queue;
  using Clock = std::chrono::steady_clock;
  bool was_warned(const std::string& text);  // and records it

  std::atomic<Clock::time_point> begin_;
  bool started_ = false;
  mutable Mutex warned_mutex_;
  std::set<std::string> warned_ MILLRACE_GUARDED_BY(warned_mutex_);
  const Patience patience_;
  std::vector<std::shared_ptr<Queue>> queues_;  // shared with the threads of abandoned observers
};

}  // namespace millrace
