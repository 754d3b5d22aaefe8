#include "work_queue.h"

#include <pthread.h>

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

WorkQueue::WorkQueue(const std::string& name, std::function<void()> first) {
  if (first) submit(std::move(first));
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

Ref<HostEvent> WorkQueue::submit(std::function<void()> work, std::function<void()> always) {
  Item item{std::move(work), std::move(always), make_ref<HostEvent>()};
  Ref<HostEvent> done = item.done;
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  arrived_.notify_one();
  return done;
}

void WorkQueue::run(std::function<void()> work) {
  std::optional<Error> failed;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      failed = current_error();
    }
  };
  submit(guarded)->wait();  // throws the queue's error
  if (failed) throw Error(*failed);
}

void WorkQueue::drain() { submit({})->wait_until_complete(); }

void WorkQueue::check() const {
  if (const std::optional<Error> error = failure()) throw Error(*error);
}

std::optional<Error> WorkQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void WorkQueue::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    execute(item);
    item = Item{};  // releases the closures' captures before the lock is taken again
    lock.lock();
  }
}

void WorkQueue::execute(Item& item) {
  std::optional<Error> error = failure();
  if (!error && item.work) {
    try {
      item.work();
    } catch (...) {
      error = current_error();
      const std::lock_guard lock(mutex_);
      error_ = error;
    }
  }
  if (item.always) item.always();
  item.done->signal(error ? &*error : nullptr);
}

}  // namespace millrace::cpu
