// Runs an element on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/kernel.h"

namespace millrace::cuda {

// Submits; does nothing without work. Returns only errors of the launch. Throws Error(device) for a kernel that was
// compiled without the CUDA toolkit.
cudaError_t launch(const Kernel& kernel, const void* element, cudaStream_t stream, int multiprocessors);

}  // namespace millrace::cuda
