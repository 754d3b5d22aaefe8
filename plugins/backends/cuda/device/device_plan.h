// The plans that CudaMachine::plan() returns, as CudaQueue::run(LibraryRun) uses them.
#pragma once

#include "cuda_queue.h"

namespace millrace::cuda {

class DevicePlan : public LibraryPlan {
 public:
  // Submits the work to `stream`, which belongs to `queue` and to the current device. Elements that the library lacks (a bias, an
  // activation, a conversion) run on `queue` in order. Must not do anything that a stream capture forbids.
  virtual void execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const = 0;
};

}  // namespace millrace::cuda
