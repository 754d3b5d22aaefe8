// The communicator over a fake NCCL (fake_nccl.h).
#include "communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fake_nccl.h"
#include "millrace/error.h"
#include "testkit/messages.h"
#include "testkit/plain.h"

namespace millrace::cuda {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::minutes kLongLimit(5);  // limit for events that must not occur: a machine may pause

// A mark that its recording has set again, for the next step, before it was read.
class AnewEvent final : public Event {
 public:
  bool complete() const override { return false; }
  void wait() const override {}
  void then(Callback) override {}
};

class NcclCommunicatorTest : public testing::Test {
 protected:
  void start(std::size_t replicas) {
    std::vector<std::unique_ptr<NcclLane>> lanes;
    for (std::size_t r = 0; r < replicas; ++r) {
      lanes.push_back(std::make_unique<TestLane>(static_cast<int>(2 * r)));
      lanes_.push_back(static_cast<TestLane*>(lanes.back().get()));
      lanes_.back()->on_complete = on_complete_;
    }
    const NcclApi api = nccl_.api();
    const NcclWorld world{.id = NcclGroup::make_id(api), .ranks = static_cast<int>(replicas)};
    communicator_ = std::make_unique<NcclCommunicator>(api, std::move(lanes), world, options_);
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
  NcclOptions options_{
      .limits = {.sum = kLongLimit, .arrival = kLongLimit}, .connect = kLongLimit, .look = milliseconds(2), .end = kLongLimit};
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

TEST_F(NcclCommunicatorTest, InHalfPrecisionRoundsGradientsAndTheirSums) {
  options_.wire = NcclWire::bf16;
  start(2);
  constexpr float kSmall = 0x1p-9F;  // bf16 has 8 bits: added to 1 it is lost, and 3 of 2^-7 are kept
  std::vector<std::vector<float>> values = {{1 + kSmall, 1, 1, 0x1p-7F}, {1 + kSmall, kSmall, 3 * 0x1p-7F, 2}};
  const std::vector<float> sum = {2, 1, 1 + 3 * 0x1p-7F, 2};
  const std::vector<std::vector<float>> before = values;
  for (int step = 0; step < 20; ++step) {
    values = before;
    const Buckets made = buckets(values, static_cast<std::uint64_t>(step));
    communicator_->all_reduce(made);
    wait(made);
    EXPECT_EQ(values[0], sum);
    EXPECT_EQ(values[1], sum);
  }
  EXPECT_EQ(failure(), "");
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
  EXPECT_MESSAGE(error_of([&] { communicator_->all_reduce(buckets(values, 18)); }));
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
  communicator_ = nullptr;
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
  EXPECT_MESSAGE(failure());
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
  EXPECT_MESSAGE(failure());
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

TEST_F(NcclCommunicatorTest, WhoeverEndsEverythingReturnsWhenNcclHasLetGo) {
  NcclGroup group(nccl_.api(), {.id = NcclGroup::make_id(nccl_.api()), .ranks = 2}, {{0, "a"}, {1, "b"}}, kLongLimit);
  nccl_.hold_end = true;
  std::atomic<int> returned_early = 0;
  const auto end = [&] {
    group.give_up();
    const std::lock_guard lock(nccl_.mutex);
    returned_early += nccl_.aborted < 2;
  };
  std::thread one(end), other(end);
  std::this_thread::sleep_for(milliseconds(20));
  {
    const std::lock_guard lock(nccl_.mutex);
    nccl_.hold_end = false;
  }
  nccl_.changed.notify_all();
  one.join();
  other.join();
  EXPECT_EQ(returned_early, 0);
  EXPECT_EQ(nccl_.aborted, 2);
}

TEST_F(NcclCommunicatorTest, ADeviceThatCannotBeConnectedIsNamed) {
  nccl_.bad_init = 1;
  EXPECT_MESSAGE(error_of([&] { start(2); }));
  EXPECT_EQ(nccl_.aborted, 1);
}

TEST_F(NcclCommunicatorTest, ConnectingDoesNotTakeForever) {
  options_.connect = milliseconds(20);
  nccl_.busy = 1 << 30;
  EXPECT_MESSAGE(error_of([&] { start(2); }));
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
  EXPECT_MESSAGE(error_of([&] { communicator_->all_reduce(buckets(values)); }));
  values[0].push_back(3);
  const Buckets made = buckets(values);
  communicator_->all_reduce(made);
  wait(made);
  EXPECT_EQ(values[0], (std::vector<float>{2, 5}));
}

}  // namespace
}  // namespace millrace::cuda
