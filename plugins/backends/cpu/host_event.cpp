#include "host_event.h"

#include <utility>

namespace millrace::cpu {

bool HostEvent::complete() const {
  const std::lock_guard lock(mutex_);
  return complete_;
}

void HostEvent::wait() const {
  wait_until_complete();
  if (failure_) throw Error(*failure_);
}

void HostEvent::wait_until_complete() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return complete_; });
}

void HostEvent::then(Callback done) {
  {
    const std::lock_guard lock(mutex_);
    if (!complete_) {
      callbacks_.push_back(std::move(done));
      return;
    }
  }
  done(failure_ ? &*failure_ : nullptr);
}

void HostEvent::signal(const Error* failure) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (failure != nullptr) failure_ = *failure;
    complete_ = true;
    callbacks.swap(callbacks_);
    changed_.notify_all();
  }
  for (const Callback& done : callbacks) done(failure);
}

}  // namespace millrace::cpu
