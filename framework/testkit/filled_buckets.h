// Gathers the reports of Replica::backward(), so that one thread can continue with the updates in order.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::gpu {

//   FilledBuckets filled(replica.buckets().size());
//   replica.backward(filled.callback());
//   for (int bucket = 0; ...) replica.update(bucket, step, filled.wait_for(bucket));
// An asynchronous device reports during submission, so nothing here waits for the device itself. REQUIRES: lives until all
// buckets were waited for.
class FilledBuckets {
 public:
  explicit FilledBuckets(std::size_t buckets) : events_(buckets), reported_(buckets) {}

  Replica::BucketReady callback() {
    return [this](int bucket, Ref<Event> filled) {
      const std::lock_guard lock(mutex_);
      events_[static_cast<std::size_t>(bucket)] = std::move(filled);
      reported_[static_cast<std::size_t>(bucket)] = true;
      changed_.notify_all();
    };
  }

  Ref<Event> wait_for(int bucket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reported_[static_cast<std::size_t>(bucket)]; });
    return events_[static_cast<std::size_t>(bucket)];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Ref<Event>> events_;
  std::vector<bool> reported_;
};

}  // namespace millrace::gpu
