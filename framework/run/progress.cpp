#include "run/progress.h"

#include <utility>

namespace millrace {

bool Progress::step_done(std::uint64_t done, const std::function<Gate(std::uint64_t done)>& decide) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  const Gate gate = decide(done);
  if (gate.is_boundary) boundary_ = done;
  if (!gate.held_by.empty()) held_by_ = gate.held_by;
  if (!gate.is_open) changed_.notify_all();
  return gate.is_open;
}

void Progress::drained(std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  drained_ = true;
  changed_.notify_all();
}

std::uint64_t Progress::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Progress::is_drained() const {
  const std::lock_guard lock(mutex_);
  return drained_;
}

std::optional<Error> Progress::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

Progress::News Progress::wait(std::chrono::milliseconds most, const std::function<bool()>& wakes) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return boundary_ != 0 || drained_ || wakes(); });
  return {std::exchange(boundary_, 0), drained_, held_by_};
}

bool Progress::is_at_boundary() const {
  const std::lock_guard lock(mutex_);
  return boundary_ != 0;
}

void Progress::release() {
  const std::lock_guard lock(mutex_);
  held_by_.clear();
}

}  // namespace millrace
