#include "work_queue.h"

#include <pthread.h>

#include <utility>

namespace millrace::cpu {

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

Ref<Event> WorkQueue::submit(std::function<void()> work, std::function<void()> always) {
  Item item{std::move(work), std::move(always), make_ref<HostEvent>()};
  Ref<Event> done = item.done;
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
  submit(guarded)->wait();
  check();
  if (failed) throw Error(*failed);
}

void WorkQueue::drain() { submit({})->wait(); }

void WorkQueue::check() const {
  const std::lock_guard lock(mutex_);
  if (error_) throw Error(*error_);
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
  bool skip = false;
  {
    const std::lock_guard lock(mutex_);
    skip = error_.has_value();
  }
  if (!skip && item.work) {
    try {
      item.work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = current_error();
    }
  }
  if (item.always) item.always();
  item.done->signal();
}

}  // namespace millrace::cpu
