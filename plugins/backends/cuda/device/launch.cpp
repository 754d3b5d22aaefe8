#include "launch.h"

#include "millrace/error.h"

namespace millrace::cuda {

cudaError_t launch(const Kernel& kernel, const void* element, cudaStream_t stream, int multiprocessors) {
  if (kernel.on_device == nullptr) {
    fail(ErrorKind::device, "kernel '{}' has no device code: its plugin was built without the CUDA toolkit", kernel.name);
  }
  return static_cast<cudaError_t>(kernel.on_device(element, stream, multiprocessors));
}

}  // namespace millrace::cuda
