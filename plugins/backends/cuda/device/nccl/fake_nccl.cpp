#include "fake_nccl.h"

#include <gtest/gtest.h>

namespace millrace::cuda {

FakeNccl* FakeNccl::current = nullptr;

namespace {

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
// Each call waits until all communicators are ended, as NCCL's may.
ncclResult_t end_one(int FakeNccl::*ended) {
  FakeNccl& nccl = *FakeNccl::current;
  std::unique_lock lock(nccl.mutex);
  nccl.changed.wait(lock, [&] { return !nccl.hold_end; });
  ++(nccl.*ended);
  nccl.changed.notify_all();
  const auto all = [&] { return nccl.*ended == static_cast<int>(nccl.comms.size()); };
  EXPECT_TRUE(nccl.changed.wait_for(lock, std::chrono::minutes(5), all)) << "waits for the others";
  return ncclSuccess;
}
ncclResult_t comm_destroy(ncclComm_t) { return end_one(&FakeNccl::destroyed); }
ncclResult_t comm_abort(ncclComm_t) { return end_one(&FakeNccl::aborted); }
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

}  // namespace

NcclApi FakeNccl::api() const {
  return {&get_unique_id, &comm_init,  &comm_destroy, &comm_abort, &comm_state, &error_string,
          &last_error,    &all_reduce, &group_start,  &group_end,  &set_device};
}

}  // namespace millrace::cuda
