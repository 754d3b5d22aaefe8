// The small kernels that questions are asked with, on bf16. All submit to a stream and return the launch's error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace millrace::gpu {

// to[i] = an odd multiple of 1/64 between -1 and 1, by the seed: exact, and the mean of many is 0.
cudaError_t fill(void* to, std::int64_t count, std::uint32_t seed, cudaStream_t stream);
// largest[0] = max |a - (b + c)|, largest[1] = max |b + c|; zeroed by the caller. Null c: 0. NaN is taken for infinity.
cudaError_t compare(const void* a, const void* b, const void* c, std::int64_t count, float* largest, cudaStream_t stream);
// Compares float32 sums of y (rows, channels) and of its squares: off[0] = max over the channels of |sum - sums| / sqrt(rows *
// squares), off[1] = max |1 - squares / sum of squares|; zeroed by the caller.
cudaError_t compare_sums(const void* y, std::int64_t rows, int channels, const void* sums, const void* squares, float* off,
                         cudaStream_t stream);

cudaError_t spin(double microseconds, cudaStream_t stream);  // by the device's clock
cudaError_t count_up(int* counter, cudaStream_t stream);     // *counter += 1

}  // namespace millrace::gpu
