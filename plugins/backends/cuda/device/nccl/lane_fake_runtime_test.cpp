// Lanes of the NCCL communicator on a fake runtime: where gradients are rounded, and in which order.
#include "nccl/cuda_lane.h"

#include <algorithm>

#include "fake_runtime_fixture.h"
#include "runtime/backend.h"

namespace millrace::cuda {
namespace {

class LaneOnFakeRuntime : public OnFakeRuntime {
 protected:
  static constexpr std::size_t kElements = 1000;
  std::vector<std::string> calls_of(CudaLane& lane, std::size_t elements) {
    const std::size_t before = fake::calls().size();
    lane.round(gradients_.data(), elements);
    lane.widen(gradients_.data(), elements);
    const std::vector<std::string> all = fake::calls();
    return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
  }
  std::vector<float> gradients_ = std::vector<float>(kElements);
};

// NCCL before 2.23 accesses the others' gradients from each device of a process.
TEST_F(LaneOnFakeRuntime, RoundsInMemoryThatOtherDevicesAreLetInto) {
  CudaDevice device(machine_);
  CudaLane lane(device);  // on stream 3
  const std::vector<std::string> first = {"allocate 2048 on 1", "zero 2048 on 1", "synchronise on 1", "launch convert on 3",
                                          "launch convert on 3"};
  EXPECT_EQ(calls_of(lane, kElements), first);
  EXPECT_EQ(calls_of(lane, kElements), (std::vector<std::string>{"launch convert on 3", "launch convert on 3"}));
  EXPECT_EQ(gpu_->table().total(), 2048U);
}

// Submitted sums may wait for other devices.
TEST_F(LaneOnFakeRuntime, WaitsForNoSumWhenALargerOneComes) {
  CudaDevice device(machine_);
  CudaLane lane(device);
  calls_of(lane, 8);
  const std::vector<std::string> calls = calls_of(lane, kElements);
  for (const char* const waits : {"synchronise on 2", "synchronise on 3", "free on 1"}) {
    EXPECT_EQ(std::count(calls.begin(), calls.end(), waits), 0) << waits;
  }
}

}  // namespace
}  // namespace millrace::cuda
