// Results of trials on a device.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace millrace::cuda {

// One for all machines of a device in a process (Machine::tried()), so that later replicas and device objects need not try again.
// Thread-safe: a thread that requests a trial in progress waits for it.
class Tried {
 public:
  struct Outcome {
    std::string trouble;  // empty: success
    bool is_new = false;  // tried just now
  };

  // Calls `attempt` unless it has already returned for this name. An attempt that throws is not stored.
  Outcome once(const std::string& name, const std::function<std::string()>& attempt) {
    const std::lock_guard lock(mutex_);
    const auto known = found_.find(name);
    if (known != found_.end()) return {known->second, false};
    return {found_.emplace(name, attempt()).first->second, true};
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> found_;
};

}  // namespace millrace::cuda
