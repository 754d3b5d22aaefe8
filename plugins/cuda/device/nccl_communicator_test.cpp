// Long because the NCCL that is acted out and what is asked of it belong together.
// The communicator over an NCCL that is acted out here: in order on each device, each device late as it likes, failing on demand.
#include "nccl_communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "millrace/error.h"
#include "testkit/plain.h"
#include "testkit/recording_queue.h"

// What NCCL's handles point to is NCCL's own business.
struct ncclComm {
  int rank = 0;
  int busy = 0;  // so many looks at its state find it in progress
  ncclResult_t state = ncclSuccess;
};

namespace millrace::cuda {
namespace {

using std::chrono::milliseconds;

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

// A mark that its recording has set anew, for the next step, before anybody looked at it.
class AnewEvent final : public Event {
 public:
  bool complete() const override { return false; }
  void wait() const override {}
  void then(std::function<void()>) override {}
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
FakeNccl* FakeNccl::current = nullptr;

ncclResult_t get_unique_id(ncclUniqueId*) { return ncclSuccess; }
ncclResult_t comm_init(ncclComm_t* comm, int, ncclUniqueId, int rank, ncclConfig_t* config) {
  FakeNccl& nccl = *FakeNccl::current;
  EXPECT_EQ(config->blocking, 0);
  if (rank == nccl.bad_init) return ncclSystemError;
  nccl.devices.push_back(nccl.present_device);
  nccl.comms.push_back(std::make_unique<ncclComm>(ncclComm{rank, nccl.busy, ncclSuccess}));
  *comm = nccl.comms.back().get();
  return ncclSuccess;
}
ncclResult_t comm_destroy(ncclComm_t) { return ++FakeNccl::current->destroyed, ncclSuccess; }
ncclResult_t comm_abort(ncclComm_t) {
  FakeNccl& nccl = *FakeNccl::current;
  const std::lock_guard lock(nccl.mutex);
  ++nccl.aborted;
  nccl.changed.notify_all();
  return ncclSuccess;
}
ncclResult_t comm_state(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(FakeNccl::current->mutex);
  *state = comm->busy > 0 ? ncclInProgress : comm->state;
  if (comm->busy > 0) --comm->busy;
  return ncclSuccess;
}
const char* error_string(ncclResult_t result) { return result == ncclSystemError ? "system error" : "another error"; }
const char* last_error(ncclComm_t) { return "the link is down"; }
ncclResult_t all_reduce(const void* from, void* to, std::size_t elements, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                        cudaStream_t stream) {
  FakeNccl& nccl = *FakeNccl::current;
  EXPECT_EQ(from, to);
  EXPECT_EQ(type, ncclFloat32);
  EXPECT_EQ(op, ncclSum);
  if (comm->rank == nccl.bad_sum) return ncclSystemError;
  nccl.elements = elements;
  nccl.group.emplace_back(reinterpret_cast<TestLane*>(stream), static_cast<float*>(to));
  return ncclSuccess;
}
ncclResult_t group_start() { return FakeNccl::current->group.clear(), ncclSuccess; }
ncclResult_t group_end() {
  FakeNccl& nccl = *FakeNccl::current;
  if (nccl.group.empty() || nccl.group.size() < nccl.comms.size()) return ncclInProgress;
  auto meeting = std::make_shared<Meeting>();
  meeting->elements = nccl.elements;
  for (const auto& [lane, data] : nccl.group) meeting->data.push_back(data);
  for (const auto& [lane, data] : nccl.group) lane->submit([&nccl, meeting] { nccl.meet(meeting); });
  const std::lock_guard lock(nccl.mutex);
  for (const auto& comm : nccl.comms) comm->busy = nccl.busy;
  return ncclInProgress;
}
cudaError_t set_device(int device) { return FakeNccl::current->present_device = device, cudaSuccess; }

NcclApi FakeNccl::api() const {
  return {&get_unique_id, &comm_init,  &comm_destroy, &comm_abort, &comm_state, &error_string,
          &last_error,    &all_reduce, &group_start,  &group_end,  &set_device};
}

class NcclCommunicatorTest : public testing::Test {
 protected:
  void start(std::size_t replicas) {
    std::vector<std::unique_ptr<NcclLane>> lanes;
    for (std::size_t r = 0; r < replicas; ++r) {
      lanes.push_back(std::make_unique<TestLane>(static_cast<int>(2 * r)));
      lanes_.push_back(static_cast<TestLane*>(lanes.back().get()));
      lanes_.back()->on_complete = on_complete_;
    }
    communicator_ = std::make_unique<NcclCommunicator>(nccl_.api(), std::move(lanes), options_);
  }

  using Buckets = std::vector<Ref<GradientBucket>>;
  static Buckets buckets(std::vector<std::vector<float>>& values, std::uint64_t step = 0, int index = 0) {
    Buckets made;
    for (std::size_t r = 0; r < values.size(); ++r) {
      made.push_back(make_ref<GradientBucket>());
      made[r]->step = step;
      made[r]->bucket = index;
      made[r]->replica = static_cast<int>(r);
      made[r]->data = values[r].data();
      made[r]->elements = values[r].size();
    }
    return made;
  }
  static void wait(const Buckets& buckets) {
    for (const auto& bucket : buckets) bucket->ready->wait();
  }
  template <class Call>
  static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      return error.what();
    }
    return "";
  }
  std::string failure() {
    return error_of([this] { communicator_->check(); });
  }

  FakeNccl nccl_;
  NcclOptions options_{.limits = {.sum = milliseconds(10000), .arrival = milliseconds(10000)},
                       .connect = milliseconds(10000),
                       .look = milliseconds(2),
                       .end = milliseconds(10000)};
  std::function<void()> on_complete_;
  std::vector<TestLane*> lanes_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

TEST_F(NcclCommunicatorTest, EveryReplicaEndsWithTheSumOfEveryBucket) {
  start(3);
  EXPECT_EQ(nccl_.devices, (std::vector<int>{0, 2, 4}));
  constexpr int kBuckets = 200;
  std::vector<std::vector<std::vector<float>>> values(kBuckets);
  std::vector<Buckets> made;
  for (int b = 0; b < kBuckets; ++b) {
    const auto x = static_cast<float>(b);
    values[static_cast<std::size_t>(b)] = {{x, 1}, {2 * x, 10}, {4 * x, 100}};
    made.push_back(buckets(values[static_cast<std::size_t>(b)], 0, b));
    communicator_->all_reduce(made.back());
  }
  for (int b = 0; b < kBuckets; ++b) {
    wait(made[static_cast<std::size_t>(b)]);
    for (const auto& sum : values[static_cast<std::size_t>(b)]) {
      EXPECT_EQ(sum, (std::vector<float>{7 * static_cast<float>(b), 111})) << b;
    }
  }
  EXPECT_EQ(failure(), "");
  communicator_ = nullptr;
  EXPECT_EQ(nccl_.destroyed, 3);
  EXPECT_EQ(nccl_.aborted, 0);
}

TEST_F(NcclCommunicatorTest, ASumWaitsForEveryReplicasGradients) {
  start(2);
  std::vector<std::vector<float>> values = {{1}, {0}};
  const Buckets made = buckets(values);
  auto ready = make_ref<TestEvent>();
  made[1]->ready = ready;
  communicator_->all_reduce(made);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(made[0]->ready->complete());
  values[1][0] = 2;
  ready->signal();
  wait(made);
  EXPECT_EQ(values[0][0], 3);
  EXPECT_EQ(values[1][0], 3);
}

TEST_F(NcclCommunicatorTest, ASumThatHangsIsEndedAndItsDevicesAreNamed) {
  options_.limits.sum = milliseconds(50);
  nccl_.hang = true;
  start(2);
  std::vector<std::vector<float>> values = {{1}, {2}};
  const Buckets made = buckets(values, 17, 3);
  communicator_->all_reduce(made);
  wait(made);  // does not hang
  EXPECT_EQ(error_of([&] { communicator_->all_reduce(buckets(values, 18)); }),
            "NCCL: the sum of bucket 3 of step 17 has not come to an end within 0.05 s on cuda:0 (test), cuda:2 (test)");
  communicator_ = nullptr;
  EXPECT_EQ(nccl_.aborted, 2);
  EXPECT_EQ(nccl_.destroyed, 0);
}

TEST_F(NcclCommunicatorTest, ASumThatHangsIsEndedThoughItsGradientsMarksWereSetAnew) {
  options_.limits.sum = milliseconds(50);
  nccl_.hang = true;
  start(2);
  std::vector<std::vector<float>> values = {{1}, {2}};
  const Buckets made = buckets(values);
  for (const auto& bucket : made) bucket->ready = make_ref<AnewEvent>();
  communicator_->all_reduce(made);
  wait(made);  // does not hang
  EXPECT_EQ(nccl_.aborted, 2);
}

TEST_F(NcclCommunicatorTest, AFailureIsKnownWhenTheFirstEventCompletes) {
  options_.limits.sum = milliseconds(20);
  nccl_.hang = true;
  std::atomic<int> unaware = 0;
  on_complete_ = [&] { unaware += failure().empty(); };
  start(3);
  std::vector<std::vector<float>> values = {{1}, {2}, {3}};
  const Buckets made = buckets(values);
  communicator_->all_reduce(made);
  wait(made);
  EXPECT_EQ(unaware, 0);
}

TEST_F(NcclCommunicatorTest, AReplicaThatNeverComesIsNamed) {
  options_.limits.arrival = milliseconds(50);
  start(3);
  std::vector<std::vector<float>> values = {{1}, {2}, {3}};
  const Buckets made = buckets(values, 5, 1);
  auto never = make_ref<TestEvent>();
  made[1]->ready = never;
  communicator_->all_reduce(made);
  made[0]->ready->wait();
  made[2]->ready->wait();
  EXPECT_EQ(failure(), "NCCL: bucket 1 of step 5: no gradients from cuda:2 (test) within 0.05 s of the first device's");
  never->signal();
}

TEST_F(NcclCommunicatorTest, WhatNcclMeetsInItsOwnThreadsIsNamed) {
  nccl_.hang = true;
  start(2);
  std::vector<std::vector<float>> values = {{1}, {2}};
  const Buckets made = buckets(values, 8, 2);
  communicator_->all_reduce(made);
  {
    const std::lock_guard lock(nccl_.mutex);
    nccl_.comms[1]->state = ncclSystemError;
  }
  wait(made);
  EXPECT_EQ(failure(), "NCCL: bucket 2 of step 8 on cuda:2 (test): system error (the link is down)");
}

TEST_F(NcclCommunicatorTest, ACallThatFailsNamesTheDeviceAndEndsEverything) {
  start(2);
  nccl_.bad_sum = 1;
  std::vector<std::vector<float>> values = {{1}, {2}};
  const std::string said = "NCCL: bucket 0 of step 9: ncclAllReduce on cuda:2 (test) failed: system error (the link is down)";
  EXPECT_EQ(error_of([&] { communicator_->all_reduce(buckets(values, 9)); }), said);
  EXPECT_EQ(nccl_.aborted, 2);
  EXPECT_EQ(error_of([&] { communicator_->all_reduce(buckets(values, 10)); }), said) << "the first failure stays";
}

TEST_F(NcclCommunicatorTest, ADeviceThatCannotBeConnectedIsNamed) {
  nccl_.bad_init = 1;
  EXPECT_EQ(error_of([&] { start(2); }), "ncclCommInitRankConfig on cuda:2 (test) failed: system error");
  EXPECT_EQ(nccl_.aborted, 1);
}

TEST_F(NcclCommunicatorTest, ConnectingDoesNotTakeForever) {
  options_.connect = milliseconds(20);
  nccl_.busy = 1 << 30;
  EXPECT_EQ(error_of([&] { start(2); }), "ncclCommInitRankConfig on cuda:0 (test) was not done within 0.02 s");
  EXPECT_EQ(nccl_.aborted, 2);
}

TEST_F(NcclCommunicatorTest, DestructionEndsWhatHangs) {
  options_.end = milliseconds(20);
  nccl_.hang = true;
  start(2);
  std::vector<std::vector<float>> values = {{1}, {2}};
  communicator_->all_reduce(buckets(values));
  communicator_ = nullptr;
  EXPECT_EQ(nccl_.aborted, 2);
}

TEST_F(NcclCommunicatorTest, RefusesBucketsOfDifferentLayouts) {
  start(2);
  std::vector<std::vector<float>> values = {{1}, {1, 2}};
  EXPECT_EQ(error_of([&] { communicator_->all_reduce(buckets(values)); }),
            "bucket 0 has 2 elements on replica 1 and 1 on replica 0: replicas of one run must share a layout");
  values[0].push_back(3);
  const Buckets made = buckets(values);
  communicator_->all_reduce(made);
  wait(made);
  EXPECT_EQ(values[0], (std::vector<float>{2, 5}));
}

// ---- What make_nccl_communicator() refuses before it opens NCCL ----

class NamedDevice final : public Device {
 public:
  NamedDevice(std::string backend, int index) {
    info_.backend = std::move(backend);
    info_.index = index;
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string&) override { return nullptr; }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t) override { return nullptr; }
  std::unique_ptr<Replica> compile(const Network&, const CompileOptions&) override { return nullptr; }

 private:
  DeviceInfo info_;
};

std::string refusal(std::vector<NamedDevice> devices) {
  std::vector<Device*> pointers;
  for (NamedDevice& device : devices) pointers.push_back(&device);
  try {
    make_nccl_communicator(pointers);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(MakeNcclCommunicator, RefusesTwoReplicasOnOneDevice) {
  EXPECT_EQ(
      refusal({{"cuda", 0}, {"cuda", 1}, {"cuda", 0}}),
      "communicator \"nccl\" needs a device for each replica, and cuda:0 has two; write communicator = \"local\" in the table "
      "of allreduce, or name each device once");
}

TEST(MakeNcclCommunicator, RefusesOtherDevices) {
  EXPECT_EQ(refusal({{"cuda", 0}, {"cpu", 0}}),
            "communicator \"nccl\" adds up over devices of backend cuda; replica 1 is on cpu:0");
}

TEST(MakeNcclCommunicator, HasNothingToDoForOneDevice) {
  NamedDevice device("cuda", 0);
  Device* pointer = &device;
  const auto communicator = make_nccl_communicator({&pointer, 1});
  const Ref<GradientBucket> bucket = make_ref<GradientBucket>();
  communicator->all_reduce({&bucket, 1});
  EXPECT_FALSE(bucket->ready);
}

TEST(LoadNccl, FindsEveryFunctionAndExcludesSumsInTheSwitches) {
  NcclApi api;
  try {
    api = load_nccl();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_STREQ(api.error_string(ncclSuccess), "no error");
  ASSERT_NE(std::getenv("NCCL_ALGO"), nullptr);
}

}  // namespace
}  // namespace millrace::cuda
