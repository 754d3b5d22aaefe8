// A device's streams and events, simulated on the CPU: each stream is a queue with a slow thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "millrace/backend/backend.h"
#include "testkit/recording_order.h"

namespace millrace::testkit {

// Completes when its stream gets there. `clock`: work done by then.
class RecordedEvent : public Event {
 public:
  RecordedEvent(OrderChecker& checker, Clock clock) : checker_(checker), clock_(std::move(clock)) {}

  bool complete() const override;  // true: the host knows it from now on
  void wait() const override;      // likewise
  // Observing it in a callback orders nothing else: the recorder cannot see where the callback passes the information.
  void then(std::function<void()> done) override;

  const Clock& clock() const { return clock_; }
  void signal();
  void wait_as_device() const;  // does not inform the host

 private:
  OrderChecker& checker_;
  const Clock clock_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::vector<std::function<void()>> callbacks_;
};

// Runs tasks in order on its own thread, each after a random delay. The destructor runs the remaining ones. A task that throws
// ends the work: later tasks are dropped, except mandatory ones.
class TaskQueue {
 public:
  TaskQueue(std::uint64_t seed, std::chrono::microseconds longest_delay);
  ~TaskQueue();

  void submit(std::function<void()> task);
  void submit_always(std::function<void()> task);  // also after an error: signals, and releasing buffers
  void drain();                                    // throws the first error of a task, once

 private:
  struct Task {
    std::function<void()> run;
    bool always = false;
  };
  void push(Task task);
  void run();

  std::mt19937_64 random_;
  const std::chrono::microseconds longest_delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  bool failed_ = false;
  std::thread thread_;  // last, since it uses the other members
};

}  // namespace millrace::testkit
