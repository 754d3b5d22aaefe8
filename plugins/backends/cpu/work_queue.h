// One thread that runs closures in order of submission: the basis of all asynchronous work on the CPU.
//
// Errors: the first exception of a closure is kept. From then on closures are skipped, but their events still complete and their
// `always` still runs, so that no waiting thread hangs; check() and run() throw the error.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/error.h"

namespace millrace::cpu {

// An event of work on host threads: a flag, its waiters, and its callbacks.
// Thread-safe. Set once and never cleared.
class HostEvent final : public Event {
 public:
  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;

  // Completes the event: wakes those who wait, then runs the callbacks on this thread, in the order they were given. `failure`:
  // why the work was not done; null when it was.
  void signal(const Error* failure = nullptr);
  void wait_until_complete() const;  // does not throw the failure

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool complete_ = false;
  std::optional<Error> failure_;  // constant once complete
  std::vector<Callback> callbacks_;
};

class WorkQueue {
 public:
  // `name`: for debuggers (15 characters). `first`: runs on the thread before anything else.
  explicit WorkQueue(const std::string& name, std::function<void()> first = {});
  ~WorkQueue();  // waits for all work
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // `always` runs after `work`, also when `work` was skipped or threw; it must not throw.
  Ref<HostEvent> submit(std::function<void()> work, std::function<void()> always = {});
  // Submits and waits. Throws the queue's error, or what `work` threw, which is not kept.
  void run(std::function<void()> work);
  void drain();                          // waits for all work submitted so far; throws nothing
  void check() const;                    // throws the first error
  std::optional<Error> failure() const;  // the first error

 private:
  struct Item {
    std::function<void()> work, always;
    Ref<HostEvent> done;
  };
  void loop();
  void execute(Item& item);

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> items_;
  std::optional<Error> error_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when all other members exist
};

}  // namespace millrace::cpu
