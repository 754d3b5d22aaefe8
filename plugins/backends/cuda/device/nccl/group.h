// NCCL's communicators of one process: one for each of its ranks, used together.
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
  int device = 0;    // CUDA's number. REQUIRES: no two ranks on one device, which NCCL cannot do (but see NcclWorld)
  std::string name;  // for messages: "cuda:1 (NVIDIA H200)"
};

// Which ranks add up together. Those of one process come one after another: [first, first + the number of its own). Two processes
// may share one device if their environments have different NCCL_HOSTID, so that NCCL takes them for two machines.
struct NcclWorld {
  ncclUniqueId id{};  // made by one process (NcclGroup::make_id), brought to the others
  int ranks = 1;      // of all processes
  int first = 0;      // this process's first rank
  // Why the other processes are lost; nothing: they are there. Null: there are none. Asked by any thread.
  std::function<std::optional<std::string>()> lost = {};
};

// The communicators are non-blocking: no call of NCCL holds a thread up, but submitting goes on in a thread of NCCL's until the
// state of every communicator says that it is done. So the lock is only ever held for moments, and a thread that watches can
// always look in, or end it all.
//
// Threads: all_reduce() by one thread at a time; trouble() and give_up() by any, at any time. give_up() makes a waiting
// all_reduce() throw. Errors: Error(device) that names the call and the device; Error(peer) while others are waited for and are
// lost.
class NcclGroup {
 public:
  static ncclUniqueId make_id(const NcclApi& api);

  // Connects this process's ranks, `own`, with all others of the world. `limit`: how long that may take, and how long submitting
  // a sum may take. The other processes have to connect at the same time.
  NcclGroup(const NcclApi& api, const NcclWorld& world, std::vector<NcclRank> own, std::chrono::milliseconds limit);
  ~NcclGroup();  // REQUIRES: all submitted work is done, or give_up() was called
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // data[r] += data of all other ranks, (elements) of this type on the device of own rank r, in place, on streams[r]. On return
  // it is in the streams.
  void all_reduce(std::span<void* const> data, std::size_t elements, ncclDataType_t type, std::span<const cudaStream_t> streams);

  struct Trouble {
    std::size_t rank = 0;  // of own
    std::string text;
  };
  std::optional<Trouble> trouble();  // what NCCL has met since, in threads of its own

  // Ends at once what is under way here; the contents of the buffers are then undefined. Returns when NCCL has released the
  // devices. Only the destructor may follow. Other processes are not told: their sums wait until they give up as well.
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
  std::mutex mutex_;               // of all calls on communicators but the last
  std::vector<ncclComm_t> comms_;  // by own rank; empty once aborted
};

}  // namespace millrace::cuda
