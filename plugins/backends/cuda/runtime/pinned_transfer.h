// Copies between device memory and the host by way of pinned memory. Pinning takes far longer than a copy, so what has been
// pinned is kept.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "host_memory.h"

namespace millrace::cuda {

// One thread at a time.
class PinnedTransfer {
 public:
  void start(Machine& machine) { machine_ = &machine; }  // which outlives this object

  // Through `queue`; both wait for it.
  std::vector<float> read(Queue& queue, const float* device, std::size_t elements);
  void write(Queue& queue, float* device, std::span<const float> values);

  // Memory for a copy that outlives the call. The memory of the copy before is given again where its last user is gone.
  std::shared_ptr<HostMemory> room_for_copy(std::size_t bytes);

 private:
  HostMemory& staging(std::size_t bytes);
  template <class Copy>
  void in_pieces(std::size_t bytes, const Copy& copy);

  Machine* machine_ = nullptr;
  std::unique_ptr<HostMemory> staging_;  // between calls of read() and write() no copy uses it
  std::shared_ptr<HostMemory> copy_;
};

}  // namespace millrace::cuda
