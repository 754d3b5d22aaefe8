// A device's memory and launches without the backend's machine, or their place on the host:
// MILLRACE_GPU_TEST_BACKEND=simulated.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "millrace/error.h"
#include "millrace/kernels/kernel.h"

namespace millrace::cuda {

inline bool is_simulated() {
  const char* const backend = std::getenv("MILLRACE_GPU_TEST_BACKEND");
  return backend != nullptr && std::string_view(backend) == "simulated";
}

inline void check(int status, const char* call) {
  if (status != cudaSuccess) fail(ErrorKind::device, "{}: {}", call, cudaGetErrorString(static_cast<cudaError_t>(status)));
}

inline std::shared_ptr<std::byte[]> allocate(std::size_t bytes) {
  if (is_simulated()) return std::make_shared<std::byte[]>(bytes);
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return {static_cast<std::byte*>(memory), [](std::byte* old) { cudaFree(old); }};
}

inline void transfer(void* to, const void* from, std::size_t bytes) {
  if (is_simulated()) {
    std::memcpy(to, from, bytes);
  } else {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
}

// Waits for the result.
inline void launch(const Kernel& kernel, const void* element, int multiprocessors) {
  if (kernel.on_device == nullptr) fail(ErrorKind::device, "{}: there is no device code", kernel.name);
  check(kernel.on_device(element, nullptr, multiprocessors), "launch");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (!is_simulated() && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
      GTEST_SKIP() << "no device: " << cudaGetErrorString(cudaGetLastError());
    }
  }
};

}  // namespace millrace::cuda
