// cuDNN's contexts on one device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"
#include "cuda_queue.h"

namespace millrace::cuda {

// cuDNN may be called from several threads if they do not share a handle. So each open stream has one: only one thread at a time
// uses a queue and its stream's handle. A closing stream's handle is reused by the next new one, because creating one takes long;
// there are never more than the maximum number of open streams. Thread-safe.
class CudnnHandles {
 public:
  explicit CudnnHandles(std::shared_ptr<const CudnnApi> api);  // REQUIRES: the device is the current one, here and below
  ~CudnnHandles();                                             // REQUIRES: all streams used are closed
  CudnnHandles(const CudnnHandles&) = delete;
  CudnnHandles& operator=(const CudnnHandles&) = delete;

  const CudnnApi& api() const { return *api_; }
  // Also during a capture of the stream. Throws Error(device).
  cudnnHandle_t of(CudaStream& stream);
  // For planning; belongs to no stream. Not thread-safe.
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
