// A group with ranks in other processes, over a fake NCCL (fake_nccl.h).
#include "group.h"

#include <gtest/gtest.h>

#include <thread>

#include "fake_nccl.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::cuda {
namespace {

constexpr std::chrono::minutes kGroupLimit(5);

// A process of the world: one rank, on the only device.
struct OneRank {
  void connect(const NcclApi& api, const NcclWorld& world, std::chrono::milliseconds limit = kGroupLimit) {
    group = std::make_unique<NcclGroup>(api, world, std::vector<NcclRank>{lane.rank()}, limit);
  }
  Ref<Event> add_up(float& value) {
    void* const data = &value;
    const cudaStream_t stream = lane.stream();
    group->all_reduce({&data, 1}, 1, ncclFloat32, {&stream, 1});
    return lane.record();
  }
  TestLane lane{0};
  std::unique_ptr<NcclGroup> group;
};

class NcclGroupTest : public testing::Test {
 protected:
  NcclWorld world(int ranks, int first = 0) const {
    return {.id = NcclGroup::make_id(nccl_.api()), .ranks = ranks, .first = first};
  }
  // Two processes connect at the same time, and submit the sum of 1 and 2.
  void start_two() {
    std::thread other([this] {
      second_.connect(nccl_.api(), world(2, 1));
      second_done_ = second_.add_up(values_[1]);
    });
    first_.connect(nccl_.api(), world(2));
    first_done_ = first_.add_up(values_[0]);
    other.join();
  }

  FakeNccl nccl_;
  float values_[2] = {1, 2};
  OneRank first_, second_;
  Ref<Event> first_done_, second_done_;
};

TEST_F(NcclGroupTest, OneRankKeepsItsNumbers) {
  first_.connect(nccl_.api(), world(1));
  for (int sum = 0; sum < 3; ++sum) first_.add_up(values_[0])->wait();
  EXPECT_EQ(values_[0], 1);
  EXPECT_FALSE(first_.group->trouble());
  first_.group = nullptr;
  EXPECT_EQ(nccl_.destroyed, 1);
}

TEST_F(NcclGroupTest, TwoProcessesOnOneDeviceAddUp) {
  start_two();
  first_done_->wait();
  second_done_->wait();
  EXPECT_EQ(values_[0], 3);
  EXPECT_EQ(values_[1], 3);
  first_.add_up(values_[0]);
  second_.add_up(values_[1])->wait();
  EXPECT_EQ(values_[1], 6);
}

TEST_F(NcclGroupTest, GivingUpEndsTheSumsOfThisProcessAlone) {
  nccl_.hang = true;
  start_two();
  first_.group->give_up();
  first_done_->wait();
  EXPECT_FALSE(second_done_->complete());
  second_.group->give_up();
  second_done_->wait();
  EXPECT_EQ(nccl_.aborted, 2);
}

TEST_F(NcclGroupTest, AProcessThatNobodyJoinsSaysSo) {
  EXPECT_MESSAGE(testkit::error_of([&] { first_.connect(nccl_.api(), world(2), std::chrono::milliseconds(20)); }).what());
  EXPECT_EQ(nccl_.aborted, 1);
}

}  // namespace
}  // namespace millrace::cuda
