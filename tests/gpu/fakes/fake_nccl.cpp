#include "fake_nccl.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace millrace::cuda {

FakeNccl* FakeNccl::current = nullptr;

namespace {

thread_local int present_device = -1;
thread_local int present_process = 0;
thread_local std::vector<FakeSum> group;  // since group_start

ncclResult_t get_unique_id(ncclUniqueId* id) {
  *id = {};
  id->internal[0] = 7;
  return ncclSuccess;
}
ncclResult_t comm_init(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  FakeNccl& nccl = *FakeNccl::current;
  EXPECT_EQ(config->blocking, 0);
  EXPECT_EQ(id.internal[0], 7) << "another world's";
  EXPECT_LT(rank, ranks);
  if (rank == nccl.bad_init) return ncclSystemError;
  const std::lock_guard lock(nccl.mutex);
  nccl.devices.push_back(present_device);
  nccl.comms.push_back(
      std::make_unique<ncclComm>(ncclComm{.rank = rank, .ranks = ranks, .process = present_process, .busy = nccl.busy}));
  *comm = nccl.comms.back().get();
  return ncclSuccess;
}
// Each call waits until all communicators of the process have ended, as NCCL's may.
ncclResult_t end_one(ncclComm_t comm, int FakeNccl::*ended) {
  FakeNccl& nccl = *FakeNccl::current;
  std::unique_lock lock(nccl.mutex);
  nccl.changed.wait(lock, [&] { return !nccl.hold_end; });
  ++(nccl.*ended);
  comm->ended = true;
  nccl.changed.notify_all();
  const auto all = [&] {
    return std::all_of(nccl.comms.begin(), nccl.comms.end(),
                       [&](const auto& other) { return other->process != comm->process || other->ended; });
  };
  EXPECT_TRUE(nccl.changed.wait_for(lock, std::chrono::minutes(5), all)) << "waits for the others";
  return ncclSuccess;
}
ncclResult_t comm_destroy(ncclComm_t comm) { return end_one(comm, &FakeNccl::destroyed); }
ncclResult_t comm_abort(ncclComm_t comm) { return end_one(comm, &FakeNccl::aborted); }
// Connecting completes when every rank of the world has joined.
ncclResult_t comm_state(ncclComm_t comm, ncclResult_t* state) {
  FakeNccl& nccl = *FakeNccl::current;
  const std::lock_guard lock(nccl.mutex);
  const bool alone = static_cast<int>(nccl.comms.size()) < comm->ranks;
  *state = comm->busy > 0 || alone ? ncclInProgress : comm->state;
  if (comm->busy > 0) --comm->busy;
  return ncclSuccess;
}
const char* error_string(ncclResult_t result) { return result == ncclSystemError ? "system error" : "another error"; }
const char* last_error(ncclComm_t) { return "the link is down"; }
ncclResult_t all_reduce(const void* from, void* to, std::size_t elements, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                        cudaStream_t stream) {
  FakeNccl& nccl = *FakeNccl::current;
  EXPECT_EQ(from, to);
  EXPECT_EQ(op, ncclSum);
  if (comm->rank == nccl.bad_sum) return ncclSystemError;
  group.push_back({comm, reinterpret_cast<TestLane*>(stream), to, elements, type});
  return ncclSuccess;
}
ncclResult_t group_start() {
  group.clear();
  present_process = ++FakeNccl::current->processes;
  return ncclSuccess;
}
ncclResult_t group_end() {
  FakeNccl& nccl = *FakeNccl::current;
  const std::lock_guard lock(nccl.mutex);
  const std::vector<FakeSum> sums = std::exchange(group, {});
  if (sums.empty() || sums.size() < nccl.of_process(*sums[0].comm)) return ncclInProgress;
  for (const FakeSum& sum : sums) {
    if (nccl.meetings.size() == sum.comm->sums) nccl.meetings.push_back(std::make_shared<Meeting>());
    const std::shared_ptr<Meeting> meeting = nccl.meetings[sum.comm->sums++];
    meeting->elements = sum.elements;
    meeting->type = sum.type;
    sum.comm->busy = nccl.busy;
    sum.lane->submit([&nccl, sum, meeting] { nccl.meet(*sum.comm, sum.data, meeting); });
  }
  return ncclInProgress;
}
cudaError_t set_device(int device) { return present_device = device, cudaSuccess; }

}  // namespace

NcclApi FakeNccl::api() const {
  return {&get_unique_id, &comm_init,  &comm_destroy, &comm_abort, &comm_state, &error_string,
          &last_error,    &all_reduce, &group_start,  &group_end,  &set_device};
}

}  // namespace millrace::cuda
