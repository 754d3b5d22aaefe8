// An NCCL that is acted out: in order on each device, each device late as it likes, failing on demand. For tests.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "communicator.h"
#include "testkit/recording_queue.h"

// What NCCL's handles point to is NCCL's own business.
struct ncclComm {
  int rank = 0;
  int busy = 0;  // so many looks at its state find it in progress
  ncclResult_t state = ncclSuccess;
};

namespace millrace::cuda {

class TestEvent final : public Event {
 public:
  bool complete() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void wait() const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }
  void then(std::function<void()> done) override { then_ = std::move(done); }  // before it is submitted
  void signal() {
    if (then_) then_();  // first: who waits for the event may end the test
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::function<void()> then_;
};

class TestLane final : public NcclLane {
 public:
  explicit TestLane(int device) : device_(device), queue_(static_cast<std::uint64_t>(device), std::chrono::microseconds(300)) {}
  NcclRank rank() const override { return {device_, fmt::format("cuda:{} (test)", device_)}; }
  cudaStream_t stream() const override { return reinterpret_cast<cudaStream_t>(const_cast<TestLane*>(this)); }
  void wait(const Ref<Event>& event) override {
    if (event) submit([event] { event->wait(); });
  }
  Ref<Event> record() override {
    auto event = make_ref<TestEvent>();
    if (on_complete) event->then(on_complete);
    submit([event] { event->signal(); });
    return event;
  }
  void submit(std::function<void()> task) { queue_.submit(std::move(task)); }

  std::function<void()> on_complete;

 private:
  const int device_;
  testkit::TaskQueue queue_;
};

// One sum: waits for all devices.
struct Meeting {
  std::vector<float*> data;
  std::size_t elements = 0;
  std::size_t arrived = 0;
  bool done = false;
};

class FakeNccl {
 public:
  FakeNccl() { current = this; }
  ~FakeNccl() { current = nullptr; }
  NcclApi api() const;

  static FakeNccl* current;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<ncclComm>> comms;
  std::vector<int> devices;  // on which communicators were made
  int present_device = -1;
  int destroyed = 0, aborted = 0;
  bool hang = false;                // sums never end by themselves
  bool hold_end = false;            // nor does the end of a communicator begin
  int bad_init = -1, bad_sum = -1;  // the rank whose call fails
  int busy = 3;
  std::vector<std::pair<TestLane*, float*>> group;  // sums since group_start, by rank
  std::size_t elements = 0;

  void meet(const std::shared_ptr<Meeting>& meeting) {
    std::unique_lock lock(mutex);
    if (aborted > 0) return;
    if (++meeting->arrived == meeting->data.size() && !hang) {
      for (std::size_t i = 0; i < meeting->elements; ++i) {
        float sum = 0;
        for (const float* data : meeting->data) sum += data[i];
        for (float* data : meeting->data) data[i] = sum;
      }
      meeting->done = true;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return meeting->done || aborted > 0; });
  }
};

}  // namespace millrace::cuda
