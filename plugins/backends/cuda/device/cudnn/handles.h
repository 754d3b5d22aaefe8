// cuDNN's contexts on one device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"
#include "cuda_queue.h"

namespace millrace::cuda {

// cuDNN may be called from several threads as long as they do not share a handle. So each open stream has one: a queue is used by
// one thread at a time, and so is its stream's handle. The handle of a stream that closes goes to the next new one, since making
// one takes long; there are never more than streams were open at once. Thread-safe.
class CudnnHandles {
 public:
  explicit CudnnHandles(std::shared_ptr<const CudnnApi> api);  // REQUIRES: the device is the current one, here and below
  ~CudnnHandles();                                             // REQUIRES: all streams that were named are closed
  CudnnHandles(const CudnnHandles&) = delete;
  CudnnHandles& operator=(const CudnnHandles&) = delete;

  const CudnnApi& api() const { return *api_; }
  // Also while the stream is captured. Throws Error(device).
  cudnnHandle_t of(CudaStream& stream);
  // For planning; of no stream's. One thread at a time.
  cudnnHandle_t planning() const { return planning_; }

 private:
  cudnnHandle_t make() const;
  void give_back(cudaStream_t stream) noexcept;

  const std::shared_ptr<const CudnnApi> api_;
  cudnnHandle_t planning_ = nullptr;
  std::mutex mutex_;
  std::map<cudaStream_t, cudnnHandle_t> handles_;
  std::vector<cudnnHandle_t> spare_;
};

}  // namespace millrace::cuda
