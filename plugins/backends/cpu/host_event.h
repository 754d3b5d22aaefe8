// Events of a device that works on host threads: a flag, its waiters, and its callbacks.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/error.h"

namespace millrace::cpu {

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

}  // namespace millrace::cpu
