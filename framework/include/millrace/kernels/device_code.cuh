// Compiles kernels for CUDA: sources for nvcc include it, then use MILLRACE_INSTANTIATE(Element) for each element.
//
// Two forms of element (see kernel.h) are launched here, one kernel for each.
#pragma once

#define MILLRACE_DEVICE_CODE

#include <cuda_runtime.h>

#include <cstdlib>
#include <string_view>

#include "millrace/kernels/device_grid.h"
#include "millrace/kernels/kernel.h"

namespace millrace {

__device__ inline int thread_of_block() { return static_cast<int>(threadIdx.x); }

// ---- Kernels that start before their predecessor has ended ("programmatic dependent launch") ----

// Every kernel begins with this call, before it accesses memory. If it was launched `ahead`, its blocks may start before the
// previous kernel in the stream has ended: they wait here until all its writes are visible. Since each kernel waits for the one
// before it, each runs after all earlier submissions. Then the next kernel may start early too. Devices below compute capability
// 9.0 do not support this.
__device__ inline void begin_kernel([[maybe_unused]] bool ahead) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (!ahead) return;
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Whether kernels are launched ahead on the current device: MILLRACE_CUDA_DEPENDENT_LAUNCH=1 is set, and the device supports it.
// The variable is read once per process.
inline bool launches_ahead() {
  static const bool wanted = [] {
    const char* const value = std::getenv("MILLRACE_CUDA_DEPENDENT_LAUNCH");
    return value != nullptr && std::string_view(value) == "1";
  }();
  if (!wanted) return false;
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

// ---- Form::each: a thread takes every stride-th element ----

template <class Element>
__global__ void __launch_bounds__(kBlockThreads)
    run_each(const __grid_constant__ Element element, std::int64_t size, bool ahead) {
  begin_kernel(ahead);
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x; i < size; i += stride) element(i);
}

// ---- Form::groups ----

// Butterflies: in each round both partners add the same two numbers, so all lanes end with the same bits, in a fixed order.
// Shuffles do not order memory, so a barrier comes first: elements rely on sum() and largest() being barriers.
class WarpGroup {
 public:
  __device__ int lane() const { return thread_of_block() % kWarpThreads; }
  __device__ int size() const { return kWarpThreads; }
  __device__ void barrier() const { __syncwarp(); }

  template <class T>
  __device__ T sum(T value) const {
    __syncwarp();
    MILLRACE_UNROLL for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(0xffffffffU, value, distance);
    }
    return value;
  }
  template <class T>
  __device__ T largest(T value) const {
    __syncwarp();
    MILLRACE_UNROLL for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
      value = larger(value, __shfl_xor_sync(0xffffffffU, value, distance));
    }
    return value;
  }
  // NaN loses, whichever side it is on, so that all lanes agree.
  template <class T>
  __device__ static T larger(T a, T b) {
    return a < b || a != a ? b : a;
  }
};

class BlockGroup {
 public:
  __device__ explicit BlockGroup(double* slots) : slots_(slots) {}
  __device__ int lane() const { return thread_of_block(); }
  __device__ int size() const { return kBlockThreads; }
  __device__ void barrier() const { __syncthreads(); }

  template <class T>
  __device__ T sum(T value) const {
    const T* parts = share(WarpGroup().sum(value));
    T total = parts[0];
    MILLRACE_UNROLL for (int warp = 1; warp < kWarpsPerBlock; ++warp) total += parts[warp];
    return total;
  }
  template <class T>
  __device__ T largest(T value) const {
    const T* parts = share(WarpGroup().largest(value));
    T most = parts[0];
    MILLRACE_UNROLL for (int warp = 1; warp < kWarpsPerBlock; ++warp) most = WarpGroup::larger(most, parts[warp]);
    return most;
  }

 private:
  // Shares each warp's value with all threads.
  template <class T>
  __device__ const T* share(T of_warp) const {
    static_assert(sizeof(T) <= sizeof(double));
    T* parts = reinterpret_cast<T*>(slots_);
    __syncthreads();  // earlier shared values have been read
    if (threadIdx.x % kWarpThreads == 0) parts[threadIdx.x / kWarpThreads] = of_warp;
    __syncthreads();
    return parts;
  }

  double* slots_;  // (kWarpsPerBlock), in shared memory
};

// All lanes of a group run these loops together, so all of them reach the barriers inside.
template <class Element>
__global__ void __launch_bounds__(kBlockThreads)
    run_in_warps(const __grid_constant__ Element element, std::int64_t size, bool ahead) {
  begin_kernel(ahead);
  const std::int64_t stride = std::int64_t{gridDim.x} * kWarpsPerBlock;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / kWarpThreads; i < size; i += stride) {
    element(WarpGroup(), i);
  }
}

template <class Element>
__global__ void __launch_bounds__(kBlockThreads)
    run_in_blocks(const __grid_constant__ Element element, std::int64_t size, bool ahead) {
  begin_kernel(ahead);
  __shared__ double slots[kWarpsPerBlock];
  for (std::int64_t i = blockIdx.x; i < size; i += gridDim.x) element(BlockGroup(slots), i);
}

// ---- Host side ----

// The kernel's last parameter, after `arguments`, is whether it was launched ahead: for begin_kernel(). Unlike <<<>>> followed by
// cudaGetLastError(), this cannot report an error of an earlier call on this thread.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kBlockThreads);
  config.stream = stream;
  cudaLaunchAttribute overlaps{};
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  const bool ahead = launches_ahead();
  config.attrs = &overlaps;
  config.numAttrs = ahead ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments..., ahead);
}

template <class Element>
requires(Element::kForm == Form::each || Element::kForm == Form::groups) cudaError_t
    launch_on_device(const Element& element, cudaStream_t stream, int multiprocessors) {
  const std::int64_t size = element.size();
  if (size <= 0) return cudaSuccess;
  if constexpr (Element::kForm == Form::each) {
    return launch_kernel(run_each<Element>, dim3(blocks_for(size, kBlockThreads, multiprocessors)), stream, element, size);
  } else if constexpr (Element::kThreads == kWarpThreads) {
    return launch_kernel(run_in_warps<Element>, dim3(blocks_for(size, kWarpsPerBlock, multiprocessors)), stream, element, size);
  } else {
    static_assert(Element::kThreads == kBlockThreads);
    return launch_kernel(run_in_blocks<Element>, dim3(blocks_for(size, 1, multiprocessors)), stream, element, size);
  }
}

template <class Element>
int launch_erased(const void* element, void* stream, int multiprocessors) {
  return static_cast<int>(
      launch_on_device(*static_cast<const Element*>(element), static_cast<cudaStream_t>(stream), multiprocessors));
}

// Compiles the element for the device, and registers it for Kernel::on_device.
template <class Element>
struct DeviceCode {
  DeviceCode() { device_launcher<Element> = launch_erased<Element>; }
};
template <class... Elements>
struct ElementDeviceCode : DeviceCode<Elements>... {};
#define MILLRACE_INSTANTIATE(...) static const DeviceCode<__VA_ARGS__> MILLRACE_UNIQUE(device_code_);

}  // namespace millrace

#include "millrace/kernels/portable_device.cuh"
