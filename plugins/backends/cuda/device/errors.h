// Checks CUDA calls.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <string_view>

#include "millrace/error.h"

namespace millrace::cuda {

// The name and line of the source file, without the folder it was built in.
inline std::string place(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), where.line());
}

// Throws Error(device) with the failed call, the reason and the place. `call` may include the purpose: "cudaMalloc of the arena".
inline void check(cudaError_t status, std::string_view call,
                  const std::source_location& where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears an error that is not sticky, so that the next launch's check does not report it again
  fail(ErrorKind::device, "{} failed: {} ({}; {})", call, cudaGetErrorString(status), cudaGetErrorName(status), place(where));
}

// Selects this device for all later calls on this thread. Not undone on return: restoring the former device would make CUDA open
// device 0 on threads that never chose one.
inline void use_device(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

}  // namespace millrace::cuda
