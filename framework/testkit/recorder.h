// Shared by the parts of a recording backend: the checker, the planted faults, and the names of memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/backend/backend.h"
#include "testkit/recording.h"
#include "testkit/recording_queue.h"

namespace millrace::testkit {

// A batch that a device has not read yet.
struct PendingRead {
  const std::uint8_t* pixels = nullptr;
  Operation operation;
  bool reused = false;
};

// Thread-safe.
class Recorder {
 public:
  explicit Recorder(const RecordingOptions& options) : options_(options), host_stream_(checker_.add_stream()) {}

  OrderChecker& checker() { return checker_; }
  const RecordingOptions& options() const { return options_; }
  int host_stream() const { return host_stream_; }
  int next_replica() { return replicas_++; }

  // Whether a planted fault applies to this call.
  bool forget_wait() { return ++waits_ == options_.leave_out_wait; }
  bool release_early() { return ++ingests_ == options_.release_batch_early; }
  bool forget_after() { return ++updates_ == options_.ignore_after; }

  // Device memory by address. Memory without a name is a separate region.
  struct Memory {
    Access access;
    int replica = -1;
    int bucket = -1;
  };
  void name_gradients(int replica, int bucket, const Bucket& memory);
  Memory find(const float* data, std::size_t elements) const;

  // Records the coming read of a batch, and reports pending reads of other content from the same buffer.
  std::shared_ptr<PendingRead> begin_read(const Batch& batch, const Operation& operation);
  void end_read(const std::shared_ptr<PendingRead>& read);
  void wait_until_reused(const PendingRead& read);  // or for a minute

 private:
  const RecordingOptions options_;
  OrderChecker checker_;
  const int host_stream_;
  std::atomic<int> replicas_{0};
  std::atomic<std::uint64_t> waits_{0}, ingests_{0}, updates_{0};
  mutable std::mutex mutex_;
  std::condition_variable reused_;
  std::map<std::uintptr_t, Memory> memory_;  // by its end
  std::list<std::shared_ptr<PendingRead>> reads_;
};

std::string gradients_of(int replica, int bucket);
std::string parameters_of(int replica, int bucket);

std::unique_ptr<Stream> record_stream(std::shared_ptr<Recorder> recorder, std::unique_ptr<Stream> inner, const std::string& name);
std::unique_ptr<Replica> record_replica(std::shared_ptr<Recorder> recorder, std::unique_ptr<Replica> inner);

// An event at the end of `queue`'s current work.
Ref<RecordedEvent> record_on(TaskQueue& queue, Recorder& recorder, Clock clock);
// `queue`, which is `stream`, waits for an event of any backend.
void wait_on(TaskQueue& queue, Recorder& recorder, int stream, const Ref<Event>& event);

}  // namespace millrace::testkit
