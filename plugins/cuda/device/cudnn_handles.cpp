#include "cudnn_handles.h"

namespace millrace::cuda {
namespace {

// A handle takes device memory, which a capture on this thread forbids, though it is no part of what is captured.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the mode to go back to
};

}  // namespace

CudnnHandles::CudnnHandles(std::shared_ptr<const CudnnApi> api) : api_(std::move(api)), planning_(make()) {}

// The streams may be gone already, and a handle that is destroyed waits for its own.
CudnnHandles::~CudnnHandles() {
  for (const auto& [stream, handle] : handles_) {
    api_->cudnnSetStream(handle, nullptr);
    api_->cudnnDestroy(handle);
  }
  api_->cudnnDestroy(planning_);
}

cudnnHandle_t CudnnHandles::make() const {
  const OutsideCapture outside;
  cudnnHandle_t handle = nullptr;
  api_->check(api_->cudnnCreate(&handle), "cudnnCreate");
  return handle;
}

cudnnHandle_t CudnnHandles::of(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  cudnnHandle_t& handle = handles_[stream];
  if (handle == nullptr) handle = make();
  api_->check(api_->cudnnSetStream(handle, stream), "cudnnSetStream");
  return handle;
}

}  // namespace millrace::cuda
