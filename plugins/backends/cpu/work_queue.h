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

#include "host_event.h"
#include "millrace/error.h"

namespace millrace::cpu {

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
