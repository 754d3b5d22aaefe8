#include "handles.h"

namespace millrace::cuda {
namespace {

// A handle allocates device memory, which a capture on this thread forbids although it is not captured.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the mode to restore
};

}  // namespace

CudnnHandles::CudnnHandles(std::shared_ptr<const CudnnApi> api) : api_(std::move(api)), planning_(make()) {}

CudnnHandles::~CudnnHandles() {
  for (cudnnHandle_t const handle : spare_) api_->cudnnDestroy(handle);
  api_->cudnnDestroy(planning_);
}

cudnnHandle_t CudnnHandles::make() const {
  const OutsideCapture outside;
  cudnnHandle_t handle = nullptr;
  api_->check(api_->cudnnCreate(&handle), "cudnnCreate");
  return handle;
}

cudnnHandle_t CudnnHandles::of(CudaStream& stream) {
  const std::lock_guard lock(mutex_);
  cudnnHandle_t& handle = handles_[stream.native()];
  if (handle != nullptr) return handle;
  if (spare_.empty()) spare_.push_back(make());
  api_->check(api_->cudnnSetStream(spare_.back(), stream.native()), "cudnnSetStream");
  stream.at_close([this, native = stream.native()] { give_back(native); });
  handle = spare_.back();
  spare_.pop_back();
  return handle;
}

// The stream still exists, because a handle that gets another stream waits for its previous one.
void CudnnHandles::give_back(cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(stream);
  api_->cudnnSetStream(found->second, nullptr);
  spare_.push_back(found->second);
  handles_.erase(found);
}

}  // namespace millrace::cuda
