// Events of a device that works on host threads: a flag, its waiters, and its callbacks.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cpu {

// Thread-safe. Set once and never cleared.
class HostEvent final : public Event {
 public:
  bool complete() const override;
  void wait() const override;
  void then(std::function<void()> done) override;

  // Completes the event: wakes waiting threads, then runs the callbacks on this thread, in order of registration.
  void signal();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool complete_ = false;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace millrace::cpu
