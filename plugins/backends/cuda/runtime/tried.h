// What was tried on a device, and how it ended.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace millrace::cuda {

// One for all machines of a device in a process (Machine::tried()), so that replicas and device objects that are opened later
// need not try again. Thread-safe: a thread that asks for what is being tried waits for it.
class Tried {
 public:
  struct Outcome {
    std::string trouble;  // empty: it holds
    bool is_new = false;  // tried just now
  };

  // Calls `attempt` unless it has returned for this name before. An attempt that throws is forgotten.
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
