#include "host_event.h"

#include <utility>

namespace millrace::cpu {

bool HostEvent::complete() const {
  const std::lock_guard lock(mutex_);
  return complete_;
}

void HostEvent::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return complete_; });
}

void HostEvent::then(std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    if (!complete_) {
      callbacks_.push_back(std::move(done));
      return;
    }
  }
  done();
}

void HostEvent::signal() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    complete_ = true;
    callbacks.swap(callbacks_);
    changed_.notify_all();
  }
  for (const std::function<void()>& done : callbacks) done();
}

}  // namespace millrace::cpu
