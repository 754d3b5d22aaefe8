// Copies between device memory and the host through pinned memory. Pinning takes far longer than a copy, so pinned memory is
// kept.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "host_memory.h"

namespace millrace::cuda {

// Not thread-safe.
class PinnedTransfer {
 public:
  void start(Machine& machine) { machine_ = &machine; }  // `machine` must outlive this object

  // Through `queue`; both wait for it.
  std::vector<float> read(Queue& queue, const float* device, std::size_t elements);
  void write(Queue& queue, float* device, std::span<const float> values);

  // Memory for a copy that outlives the call. Reuses the previous copy's memory if it has no more users.
  std::shared_ptr<HostMemory> room_for_copy(std::size_t bytes);

 private:
  HostMemory& staging(std::size_t bytes);
  template <class Copy>
  void in_pieces(std::size_t bytes, const Copy& copy);

  Machine* machine_ = nullptr;
  std::unique_ptr<HostMemory> staging_;  // unused between calls of read() and write()
  std::shared_ptr<HostMemory> copy_;
};

}  // namespace millrace::cuda
