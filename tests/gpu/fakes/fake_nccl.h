// A fake NCCL for tests: in order on each device, with arbitrary delays, failing on demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/kernels.h"
#include "nccl/communicator.h"
#include "testkit/recording_queue.h"

// NCCL does not define these handles' contents.
struct ncclComm {
  int rank = 0, ranks = 1;
  int process = 0;       // communicators created in one group belong to one process
  std::size_t sums = 0;  // number of sums joined
  int busy = 0;          // number of state queries that return "in progress"
  ncclResult_t state = ncclSuccess;
  bool ended = false;  // destroyed or aborted
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
  void then(Callback done) override { then_ = std::move(done); }  // before it is submitted
  void signal() {
    if (then_) then_(nullptr);  // first: who waits for the event may end the test
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  Callback then_;
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
    if (on_complete) event->then([this](const Error*) { on_complete(); });
    submit([event] { event->signal(); });
    return event;
  }
  void* round(const float* from, std::size_t elements) override {
    rounded_.resize(std::max(rounded_.size(), elements));
    submit([this, from, elements] {
      for (std::size_t i = 0; i < elements; ++i) rounded_[i] = from_float<Bf16>(from[i]);
    });
    return rounded_.data();
  }
  void widen(float* to, std::size_t elements) override {
    submit([this, to, elements] {
      for (std::size_t i = 0; i < elements; ++i) to[i] = to_float(rounded_[i]);
    });
  }
  void submit(std::function<void()> task) { queue_.submit(std::move(task)); }

  std::function<void()> on_complete;

 private:
  const int device_;
  std::vector<Bf16> rounded_;  // REQUIRES: no later sum is larger than the first one
  testkit::TaskQueue queue_;   // destroyed first
};

// One sum: waits for all ranks.
struct Meeting {
  std::vector<void*> data;
  std::size_t elements = 0;
  ncclDataType_t type = ncclFloat32;
  bool done = false;
};

// A communicator's sum between group_start and group_end.
struct FakeSum {
  ncclComm* comm = nullptr;
  TestLane* lane = nullptr;
  void* data = nullptr;
  std::size_t elements = 0;
  ncclDataType_t type = ncclFloat32;
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
  std::vector<int> devices;  // devices with communicators
  std::atomic<int> processes = 0;
  int destroyed = 0, aborted = 0;
  bool hang = false;                // sums never end by themselves
  bool hold_end = false;            // ending a communicator does not begin either
  int bad_init = -1, bad_sum = -1;  // the rank whose call fails
  int busy = 3;
  std::vector<std::shared_ptr<Meeting>> meetings;  // in the order in which every rank joins them

  std::size_t of_process(const ncclComm& comm) const {  // number of its communicators
    return static_cast<std::size_t>(
        std::count_if(comms.begin(), comms.end(), [&](const auto& other) { return other->process == comm.process; }));
  }
  // Each addition rounds to the type.
  template <class T>
  static void add_up(const Meeting& meeting) {
    for (std::size_t i = 0; i < meeting.elements; ++i) {
      T sum = from_float<T>(0);
      for (const void* of_rank : meeting.data) {
        sum = from_float<T>(to_float(sum) + to_float(static_cast<const T*>(of_rank)[i]));
      }
      for (void* of_rank : meeting.data) static_cast<T*>(of_rank)[i] = sum;
    }
  }
  void meet(const ncclComm& comm, void* data, const std::shared_ptr<Meeting>& meeting) {
    std::unique_lock lock(mutex);
    if (comm.ended) return;
    meeting->data.push_back(data);
    if (static_cast<int>(meeting->data.size()) == comm.ranks && !hang) {
      meeting->type == ncclFloat32 ? add_up<float>(*meeting) : add_up<Bf16>(*meeting);
      meeting->done = true;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return meeting->done || comm.ended; });
  }
};

}  // namespace millrace::cuda
