// NCCL's communicators of one process: one for each device, used together.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api.h"

namespace millrace::cuda {

struct NcclRank {
  int device = 0;    // CUDA's number. REQUIRES: no two ranks on one device, which NCCL cannot do
  std::string name;  // for messages: "cuda:1 (NVIDIA H200)"
};

// The communicators are non-blocking: no call of NCCL holds a thread up, but submitting goes on in a thread of NCCL's until the
// state of every communicator says that it is done. So the lock is only ever held for moments, and a thread that watches can
// always look in, or end it all.
//
// Threads: all_reduce() by one thread at a time; trouble() and give_up() by any, at any time. give_up() makes a waiting
// all_reduce() throw. Errors: Error(device) that names the call and the device.
class NcclGroup {
 public:
  // Connects the devices. `limit`: how long that may take, and how long submitting a sum may take.
  NcclGroup(const NcclApi& api, std::vector<NcclRank> ranks, std::chrono::milliseconds limit);
  ~NcclGroup();  // REQUIRES: all submitted work is done, or give_up() was called
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // data[r] += data of all others, (elements) float32 on rank r's device, in place, on streams[r]. On return it is in the
  // streams.
  void all_reduce(std::span<float* const> data, std::size_t elements, std::span<const cudaStream_t> streams);

  struct Trouble {
    std::size_t rank = 0;
    std::string text;
  };
  std::optional<Trouble> trouble();  // what NCCL has met since, in threads of its own

  // Makes whatever is under way end at once, with nobody knowing what then lies in the buffers. Returns when NCCL has let go of
  // the devices. Nothing but the destructor may follow usefully.
  void give_up() noexcept;

 private:
  void connect();
  void wait_until_submitted(const char* call);
  void check(ncclResult_t status, const char* call, std::size_t rank) const;
  std::string text_of(ncclResult_t status, ncclComm_t comm) const;

  const NcclApi api_;
  const std::vector<NcclRank> ranks_;
  const std::chrono::milliseconds limit_;
  std::mutex ending_;              // held by give_up()
  std::mutex mutex_;               // of all calls on communicators but the last
  std::vector<ncclComm_t> comms_;  // by rank; empty once aborted
};

}  // namespace millrace::cuda
