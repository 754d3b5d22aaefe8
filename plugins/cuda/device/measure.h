// Timing work on the device, to choose among several ways of doing it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace millrace::cuda {

// Device memory for a measurement, filled with small numbers: NaN and zero can take another time than what a network holds.
class MeasureMemory {
 public:
  explicit MeasureMemory(std::size_t bytes);  // throws Error(device) when there is not enough
  ~MeasureMemory();
  MeasureMemory(const MeasureMemory&) = delete;
  MeasureMemory& operator=(const MeasureMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Seconds that each of `count` candidates takes at best, once warm, on this stream of the current device; infinity for one that
// throws.
std::vector<double> measure(cudaStream_t stream, std::size_t count,
                            const std::function<void(std::size_t candidate, cudaStream_t stream)>& run);

// The first of the shortest. REQUIRES: there is one.
std::size_t fastest(std::span<const double> seconds);

}  // namespace millrace::cuda
