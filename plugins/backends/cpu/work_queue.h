// One thread that works through closures in the order they were submitted: how everything asynchronous on the CPU is made.
//
// Errors: the first exception of a closure is kept. From then on closures are skipped. Their `always` still runs, and their
// events complete with the error, so that no thread that waits for them hangs; check() and run() throw it too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "host_event.h"
#include "millrace/error.h"

namespace millrace::cpu {

class WorkQueue {
 public:
  // `name` is shown by debuggers (15 characters). `first`: run on the thread before anything else.
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
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace millrace::cpu
