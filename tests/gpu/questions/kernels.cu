#include "kernels.h"

#include <cuda_bf16.h>

namespace millrace::gpu {
namespace {

constexpr int kThreads = 256, kBlocks = 1024;

using Bf16 = __nv_bfloat16;

__device__ std::int64_t first() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t stride() { return std::int64_t{gridDim.x} * blockDim.x; }

__global__ void fill_with(Bf16* to, std::int64_t count, std::uint32_t seed) {
  for (std::int64_t i = first(); i < count; i += stride()) {
    std::uint64_t z = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL + seed * 0xD1B54A32D192ED03ULL;  // SplitMix64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    to[i] = __float2bfloat16(static_cast<float>(2 * static_cast<int>((z >> 40) % 64) - 63) / 64);
  }
}

// The bits of floats that are not negative are in the order of the floats.
__device__ void keep_larger(float* largest, float value) {
  atomicMax(reinterpret_cast<unsigned*>(largest), __float_as_uint(value == value ? value : INFINITY));
}

__global__ void compare_all(const Bf16* a, const Bf16* b, const Bf16* c, std::int64_t count, float* largest) {
  for (std::int64_t i = first(); i < count; i += stride()) {
    const float wanted = __bfloat162float(b[i]) + (c == nullptr ? 0 : __bfloat162float(c[i]));
    const float off = fabsf(__bfloat162float(a[i]) - wanted);
    if (!(off <= largest[0])) keep_larger(&largest[0], off);
    if (fabsf(wanted) > largest[1]) keep_larger(&largest[1], fabsf(wanted));
  }
}

__global__ void compare_channels(const Bf16* y, std::int64_t rows, int channels, const float* sums, const float* squares,
                                 float* off) {
  const int channel = static_cast<int>(first());
  if (channel >= channels) return;
  double sum = 0, square = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double value = __bfloat162float(y[row * channels + channel]);
    sum += value;
    square += value * value;
  }
  keep_larger(&off[0], static_cast<float>(fabs(sum - sums[channel]) / sqrt(rows * square)));
  keep_larger(&off[1], static_cast<float>(fabs(1 - squares[channel] / square)));
}

__global__ void spin_for(unsigned long long nanoseconds) {
  unsigned long long start = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__global__ void add_one(int* counter) { *counter += 1; }

// Unlike <<<>>> followed by cudaGetLastError() this cannot mistake a library's earlier error for the launch's own.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), int blocks, int threads, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace

cudaError_t fill(void* to, std::int64_t count, std::uint32_t seed, cudaStream_t stream) {
  return launch(fill_with, kBlocks, kThreads, stream, static_cast<Bf16*>(to), count, seed);
}
cudaError_t compare(const void* a, const void* b, const void* c, std::int64_t count, float* largest, cudaStream_t stream) {
  return launch(compare_all, kBlocks, kThreads, stream, static_cast<const Bf16*>(a), static_cast<const Bf16*>(b),
                static_cast<const Bf16*>(c), count, largest);
}
cudaError_t compare_sums(const void* y, std::int64_t rows, int channels, const void* sums, const void* squares, float* off,
                         cudaStream_t stream) {
  return launch(compare_channels, (channels + 31) / 32, 32, stream, static_cast<const Bf16*>(y), rows, channels,
                static_cast<const float*>(sums), static_cast<const float*>(squares), off);
}
cudaError_t spin(double microseconds, cudaStream_t stream) {
  return launch(spin_for, 1, 1, stream, static_cast<unsigned long long>(microseconds * 1000));
}
cudaError_t count_up(int* counter, cudaStream_t stream) { return launch(add_one, 1, 1, stream, counter); }

}  // namespace millrace::gpu
