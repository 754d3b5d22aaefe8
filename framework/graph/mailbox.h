// Keeps a serial stage serial: one packet at a time, in order of arrival.
//
// function_node's own `serial` forwards the next message before it passes the last one's result to the successor, so that two
// serial stages in a row may swap packets; and a body that sends costs a second trip through the scheduler. Here the order holds
// from end to end, and a thread may continue with the next stage at once.
#pragma once

#include <cstddef>
#include <vector>

#include "util/mutex.h"

namespace millrace::flow {

// Thread-safe; the lock is held for a few instructions, when a packet arrives and when it is done.
template <class Message>
class Mailbox {
 public:
  // True if idle: the caller must run `message`. False: it is queued.
  bool claim(const Message& message) {
    const Lock lock(mutex_);
    if (!busy_) return busy_ = true;
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) % ring_.size()] = message;
    return false;
  }

  // When a message is done: true and the next one to run, or false if none is waiting.
  bool next(Message& message) {
    const Lock lock(mutex_);
    if (count_ == 0) return busy_ = false;
    message = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return true;
  }

 private:
  void grow() MILLRACE_REQUIRES(mutex_) {
    std::vector<Message> larger(ring_.empty() ? 8 : 2 * ring_.size());
    for (std::size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) % ring_.size()];
    ring_.swap(larger);
    first_ = 0;
  }

  Mutex mutex_;
  bool busy_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<Message> ring_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t first_ MILLRACE_GUARDED_BY(mutex_) = 0, count_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::flow
