// Checks CUDA calls.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/error.h"

namespace millrace::cuda {

// The name and line of the source file, without the folder it was built in.
inline std::string place(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), where.line());
}

// An error with the call, the reason and the place; empty after success. `call` may include the purpose: "cudaMalloc of the
// arena".
inline std::optional<Error> error_of(cudaError_t status, std::string_view call,
                                     const std::source_location& where = std::source_location::current()) {
  if (status == cudaSuccess) return std::nullopt;
  cudaGetLastError();  // an error that is not sticky must not be found again by the next launch's check
  return Error(ErrorKind::device,
               fmt::format("{} failed: {} ({}; {})", call, cudaGetErrorString(status), cudaGetErrorName(status), place(where)));
}

// Throws the same.
inline void check(cudaError_t status, std::string_view call,
                  const std::source_location& where = std::source_location::current()) {
  if (std::optional<Error> error = error_of(status, call, where)) throw std::move(*error);
}

// Selects this device for all later calls on this thread. Not undone on return: restoring the former device would make CUDA open
// device 0 on threads that never chose one.
inline void use_device(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

}  // namespace millrace::cuda
