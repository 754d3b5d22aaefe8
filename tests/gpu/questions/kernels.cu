#include "kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace millrace::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 2048;

int blocks_for(std::int64_t count) {
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

__device__ float as_float(float value) { return value; }
__device__ float as_float(__half value) { return __half2float(value); }
__device__ float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void set(float& to, float value) { to = value; }
__device__ void set(__half& to, float value) { to = __float2half(value); }
__device__ void set(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }

__device__ std::int64_t first() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t stride() { return std::int64_t{gridDim.x} * blockDim.x; }

template <class T>
__global__ void fill_with(T* to, std::int64_t count, std::uint32_t seed) {
  for (std::int64_t i = first(); i < count; i += stride()) set(to[i], number_at(seed, i));
}

template <class T>
__global__ void gather_from(const T* from, const std::int64_t* at, int count, float* out) {
  for (std::int64_t i = first(); i < count; i += stride()) out[i] = as_float(from[at[i]]);
}

template <class T>
__global__ void add_up(const T* y, std::int64_t rows, std::int64_t channels, std::int64_t channel, double* sums) {
  double sum = 0, squares = 0;
  for (std::int64_t i = first(); i < rows; i += stride()) {
    const double value = as_float(y[i * channels + channel]);
    sum += value;
    squares += value * value;
  }
  atomicAdd(&sums[0], sum);
  atomicAdd(&sums[1], squares);
}

// The bits of floats that are not negative are in the order of the floats.
__device__ void keep_larger(float* largest, float value) {
  atomicMax(reinterpret_cast<unsigned*>(largest), __float_as_uint(value == value ? value : INFINITY));
}

template <class T>
__global__ void compare_all(const T* a, const T* b, const T* c, std::int64_t count, float* largest) {
  float difference = 0, size = 0;
  for (std::int64_t i = first(); i < count; i += stride()) {
    const float wanted = as_float(b[i]) + as_float(c[i]), off = fabsf(as_float(a[i]) - wanted);
    difference = larger_or_nan(difference, off);
    size = fmaxf(size, fabsf(wanted));
  }
  keep_larger(&largest[0], difference);
  keep_larger(&largest[1], size);
}

__global__ void do_nothing() {}

__global__ void spin_for(unsigned long long nanoseconds) {
  unsigned long long start = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__global__ void add_one(int* counter) { *counter += 1; }
__global__ void copy_one(const int* from, int* to) { *to = *from; }

// Unlike <<<>>> followed by cudaGetLastError() this cannot mistake a library's earlier error for the launch's own.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), int blocks, int threads, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Returns use(pointer to the type's element).
template <class Use>
cudaError_t with_type(Numbers type, const Use& use) {
  switch (type) {
    case Numbers::f32: return use(static_cast<float*>(nullptr));
    case Numbers::f16: return use(static_cast<__half*>(nullptr));
    case Numbers::bf16: return use(static_cast<__nv_bfloat16*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t fill(void* to, Numbers type, std::int64_t count, std::uint32_t seed, cudaStream_t stream) {
  return with_type(type, [&]<class T>(T*) {
    return launch(fill_with<T>, blocks_for(count), kThreads, stream, static_cast<T*>(to), count, seed);
  });
}

cudaError_t gather(const void* from, Numbers type, const std::int64_t* at, int count, float* out, cudaStream_t stream) {
  return with_type(type, [&]<class T>(T*) {
    return launch(gather_from<T>, blocks_for(count), kThreads, stream, static_cast<const T*>(from), at, count, out);
  });
}

cudaError_t add_up_channel(const void* y, Numbers type, std::int64_t rows, std::int64_t channels, std::int64_t channel,
                           double* sums, cudaStream_t stream) {
  return with_type(type, [&]<class T>(T*) {
    return launch(add_up<T>, blocks_for(rows), kThreads, stream, static_cast<const T*>(y), rows, channels, channel, sums);
  });
}

cudaError_t compare(const void* a, const void* b, const void* c, Numbers type, std::int64_t count, float* largest,
                    cudaStream_t stream) {
  return with_type(type, [&]<class T>(T*) {
    return launch(compare_all<T>, blocks_for(count), kThreads, stream, static_cast<const T*>(a), static_cast<const T*>(b),
                  static_cast<const T*>(c), count, largest);
  });
}

cudaError_t nothing(cudaStream_t stream) { return launch(do_nothing, 1, 32, stream); }

cudaError_t spin(double microseconds, int blocks, cudaStream_t stream) {
  return launch(spin_for, blocks, kThreads, stream, static_cast<unsigned long long>(microseconds * 1000));
}

cudaError_t count_up(int* counter, cudaStream_t stream) { return launch(add_one, 1, 1, stream, counter); }

cudaError_t copy_counter(const int* counter, int* to, cudaStream_t stream) { return launch(copy_one, 1, 1, stream, counter, to); }

}  // namespace millrace::gpu
