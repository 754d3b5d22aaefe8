// What CudaQueue::run(LibraryRun) expects of the plans that CudaMachine::plan() hands out.
#pragma once

#include "cuda_queue.h"

namespace millrace::cuda {

class DevicePlan : public LibraryPlan {
 public:
  // Submits the work to `stream`, which belongs to `queue` and to the current device. Elements that the library lacks (a bias, an
  // activation, a conversion) are run on `queue`, which keeps their order. Must do nothing that a stream capture forbids.
  virtual void execute(const LibraryRun& run, CudaStream& stream, Queue& queue) const = 0;
};

}  // namespace millrace::cuda
