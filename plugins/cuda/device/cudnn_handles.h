// cuDNN's contexts on one device.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>

#include "cudnn_api.h"

namespace millrace::cuda {

// cuDNN may be called from several threads as long as they do not share a handle. So each stream has one: a queue is used by one
// thread at a time, and so is its stream's handle. Handles are kept until the last plan that runs on them is gone; what is found
// under a stream's name is told of the stream again before each use, as streams come and go. Thread-safe.
class CudnnHandles {
 public:
  explicit CudnnHandles(std::shared_ptr<const CudnnApi> api);  // REQUIRES: the device is the current one, here and below
  ~CudnnHandles();
  CudnnHandles(const CudnnHandles&) = delete;
  CudnnHandles& operator=(const CudnnHandles&) = delete;

  const CudnnApi& api() const { return *api_; }
  // Also while the stream is captured. Throws Error(device).
  cudnnHandle_t of(cudaStream_t stream);
  // For planning; of no stream's. One thread at a time.
  cudnnHandle_t planning() const { return planning_; }

 private:
  cudnnHandle_t make() const;

  const std::shared_ptr<const CudnnApi> api_;
  cudnnHandle_t planning_ = nullptr;
  std::mutex mutex_;
  std::map<cudaStream_t, cudnnHandle_t> handles_;
};

}  // namespace millrace::cuda
