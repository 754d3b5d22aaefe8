// NCCL's communicators of one process: one per rank, used together.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api.h"

namespace millrace::cuda {

struct NcclRank {
  int device = 0;    // CUDA's number. REQUIRES: ranks are on different devices, as NCCL demands (but see NcclWorld)
  std::string name;  // for messages: "cuda:1 (NVIDIA H200)"
};

// The ranks that sum together. Those of one process are consecutive: [first, first + the number of its own). Two processes may
// share one device if their environments have different NCCL_HOSTID, so that NCCL treats them as two machines.
struct NcclWorld {
  ncclUniqueId id{};  // created by one process (NcclGroup::make_id), sent to the others
  int ranks = 1;      // in all processes
  int first = 0;      // this process's first rank
  // The reason why other processes are lost; empty if none is. Null: there are none. Called from any thread.
  std::function<std::optional<std::string>()> lost = {};
};

// The communicators are non-blocking: no NCCL call blocks, but an NCCL thread continues the submission until the state of every
// communicator reports completion. So the lock is only held briefly, and a watching thread can always query or abort.
//
// Threading: all_reduce() from one thread at a time; trouble() and give_up() from any, at any time. give_up() makes a waiting
// all_reduce() throw. Errors: Error(device) with the call and the device; Error(peer) if others are lost while it waits for them.
class NcclGroup {
 public:
  static ncclUniqueId make_id(const NcclApi& api);

  // Connects this process's ranks, `own`, with all others of the world. `limit`: for connecting, and for submitting a sum. The
  // other processes must connect at the same time.
  NcclGroup(const NcclApi& api, const NcclWorld& world, std::vector<NcclRank> own, std::chrono::milliseconds limit);
  ~NcclGroup();  // REQUIRES: all submitted work is complete, or give_up() was called
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // data[r] += data of all other ranks, (elements) of this type on the device of own rank r, in place, on streams[r]. On return
  // it is submitted.
  void all_reduce(std::span<void* const> data, std::size_t elements, ncclDataType_t type, std::span<const cudaStream_t> streams);

  struct Trouble {
    std::size_t rank = 0;  // index into own
    std::string text;
  };
  std::optional<Trouble> trouble();  // errors from NCCL's own threads since

  // Aborts pending work here at once; the buffers' contents are undefined then. Returns when NCCL has released the devices. Only
  // the destructor may follow. Other processes are not notified: their sums wait until they give up as well.
  void give_up() noexcept;

 private:
  void connect(const NcclWorld& world);
  void wait_until_submitted(const char* call);
  void check(ncclResult_t status, const char* call, std::size_t rank) const;

  const NcclApi api_;
  const std::vector<NcclRank> own_;
  const std::chrono::milliseconds limit_;
  const std::function<std::optional<std::string>()> lost_;
  std::mutex ending_;              // held by give_up()
  std::mutex mutex_;               // guards all calls on communicators except the last
  std::vector<ncclComm_t> comms_;  // by own rank; empty after an abort
};

}  // namespace millrace::cuda
