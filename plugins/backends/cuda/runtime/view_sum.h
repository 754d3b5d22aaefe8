// The weighted sum of a network's outputs for several views of the same images (test-time augmentation), in float32.
#pragma once

#include "layers/operation.h"

namespace millrace::cuda {

// Not thread-safe. Nothing here waits for the device.
class ViewSum {
 public:
  // `output`: the network's, for the maximum number of samples. `wanted`: views were requested when the network was compiled; a
  // sum of vectors is small enough to exist in any case.
  ViewSum(Machine& machine, const MapSpec& output, bool wanted);

  std::size_t bytes() const { return planned_bytes_; }
  void start();

  // The destination of add() for outputs like this one.
  Map begin(const Map& output);
  void add(Queue& queue, const Map& output, const View& view);

 private:
  Machine& machine_;
  const std::size_t largest_bytes_, planned_bytes_;
  DeviceMemory memory_;
  bool is_empty_ = true;  // the next output is the first
};

}  // namespace millrace::cuda
