// Runs an element on the device. Defined in launch.cuh, instantiated for each element by kernels_*.cu.
#pragma once

#include <cuda_runtime_api.h>

#include "../elements/elements.h"

namespace millrace::cuda {

// Submits; nothing when there is nothing to do. Errors of the launch only.
template <class Element>
cudaError_t launch(const Element& element, cudaStream_t stream, int multiprocessors);

}  // namespace millrace::cuda
