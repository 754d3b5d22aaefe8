#include "testkit/recording_queue.h"

#include <utility>

namespace millrace::testkit {

bool RecordedEvent::complete() const {
  {
    const std::scoped_lock lock(mutex_);
    if (!done_) return false;
  }
  checker_.seen_by_host(clock_);
  return true;
}

void RecordedEvent::wait() const {
  wait_as_device();
  if (failure_) throw Error(*failure_);
  checker_.seen_by_host(clock_);
}

void RecordedEvent::wait_as_device() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

void RecordedEvent::then(Callback done) {
  {
    const std::scoped_lock lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(done));
      return;
    }
  }
  done(failure_ ? &*failure_ : nullptr);
}

void RecordedEvent::signal(const Error* failure) {
  std::vector<Callback> callbacks;
  {
    const std::scoped_lock lock(mutex_);
    if (done_) return;  // the first one counts
    if (failure != nullptr) failure_ = *failure;
    done_ = true;
    callbacks.swap(callbacks_);
  }
  changed_.notify_all();
  for (const Callback& callback : callbacks) callback(failure);
}

TaskQueue::TaskQueue(std::uint64_t seed, std::chrono::microseconds longest_delay)
    : random_(seed), longest_delay_(longest_delay), thread_([this] { run(); }) {}

TaskQueue::~TaskQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TaskQueue::submit(std::function<void()> task) { push({std::move(task), false}); }
void TaskQueue::submit_always(std::function<void()> task) { push({std::move(task), true}); }

void TaskQueue::push(Task task) {
  {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void TaskQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
  if (failure_ && !std::exchange(thrown_, true)) throw Error(*failure_);
}

std::optional<Error> TaskQueue::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    const bool skip = failure_ && !task.always;
    lock.unlock();
    try {
      if (!skip) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(random_() % static_cast<std::uint64_t>(longest_delay_.count() + 1)));
        task.run();
      }
      task.run = nullptr;  // releases its captures before waiters learn that the queue is empty
      lock.lock();
    } catch (...) {
      Error error = current_error();
      task.run = nullptr;
      lock.lock();
      if (!failure_) failure_ = std::move(error);
    }
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace millrace::testkit
