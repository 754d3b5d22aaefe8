// The small kernels that questions are asked with. All submit to a stream and return the launch's error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/portable.h"

namespace millrace::gpu {

enum class Numbers : std::uint8_t { f32, f16, bf16 };
constexpr std::size_t size_of(Numbers type) { return type == Numbers::f32 ? 4 : 2; }
constexpr const char* name_of(Numbers type) { return type == Numbers::f32 ? "f32" : type == Numbers::f16 ? "f16" : "bf16"; }

// The i-th number of a tensor that fill() filled, so that the host knows it without reading it: an odd multiple of 1/64 between
// -1 and 1, exact in all types; the mean of many is 0.
MILLRACE_HD float number_at(std::uint32_t seed, std::int64_t i) {
  std::uint64_t z = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL + seed * 0xD1B54A32D192ED03ULL;  // SplitMix64
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<float>(2 * static_cast<int>((z >> 40) % 64) - 63) / 64;
}

// The larger one; NaN once there was one.
template <class T>
MILLRACE_HD T larger_or_nan(T so_far, T value) {
  return so_far != so_far || so_far >= value ? so_far : value;
}

cudaError_t fill(void* to, Numbers type, std::int64_t count, std::uint32_t seed, cudaStream_t stream);
// out[i] = from[at[i]]
cudaError_t gather(const void* from, Numbers type, const std::int64_t* at, int count, float* out, cudaStream_t stream);
// sums[0] += y, sums[1] += y * y over one channel of (rows, channels); `sums` is zeroed by the caller.
cudaError_t add_up_channel(const void* y, Numbers type, std::int64_t rows, std::int64_t channels, std::int64_t channel,
                           double* sums, cudaStream_t stream);
// largest[0] = max |a - (b + c)|, largest[1] = max |b + c|, as floats that are never negative; zeroed by the caller. NaN is taken
// for infinity.
cudaError_t compare(const void* a, const void* b, const void* c, Numbers type, std::int64_t count, float* largest,
                    cudaStream_t stream);

cudaError_t nothing(cudaStream_t stream);
cudaError_t spin(double microseconds, int blocks, cudaStream_t stream);  // by the device's clock
cudaError_t count_up(int* counter, cudaStream_t stream);                 // *counter += 1
cudaError_t copy_counter(const int* counter, int* to, cudaStream_t stream);

}  // namespace millrace::gpu
