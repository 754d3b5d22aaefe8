// The weighted sum of a network's outputs for several views of the same images (test-time augmentation), in float32.
#pragma once

#include "layers/operation.h"

namespace millrace::cuda {

// One thread at a time. Nothing here waits for the device.
class ViewSum {
 public:
  // `output`: of the network, for as many samples as a pass may have. `wanted`: views were asked for when the network was
  // compiled; a sum of vectors is small enough to be there in any case.
  ViewSum(Machine& machine, const MapSpec& output, bool wanted);

  std::size_t bytes() const { return planned_bytes_; }
  void start();

  // What add() writes to for outputs like this one.
  Map begin(const Map& output);
  void add(Queue& queue, const Map& output, const View& view);

 private:
  Machine& machine_;
  const std::size_t largest_bytes_, planned_bytes_;
  DeviceMemory memory_;
  bool is_empty_ = true;  // the next output is the first
};

}  // namespace millrace::cuda
