#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine.h"

namespace millrace::cuda {

// The images of one set that stay on the device: (1 + samples, H, W, C) uint8, in the order in which they came. Row 0 is black
// and stands in for slots without weight. A row is written once, and everything that reads it is submitted later: readers wait
// for the copies that were submitted before them, and writers do not wait.
class ResidentImages {
 public:
  ResidentImages(Machine& machine, const ResidentSet& set);
  static MemoryPlan::Item plan(const ResidentSet& set);

  // Writes the row of each slot's image, and submits copies of those that are not here yet: slots in a row are one copy.
  // Throws Error(device) for more images than the set was said to have.
  void bring(const Batch& batch, std::uint32_t begin, std::uint32_t count, std::int32_t* rows, Queue& copy);

  const std::uint8_t* pixels() const { return memory_.as<std::uint8_t>(); }
  std::int64_t rows() const { return rows_; }  // that are here or on their way

 private:
  std::int32_t& row_of(std::uint64_t index);

  ResidentSet set_;
  DeviceMemory memory_;
  std::vector<std::int32_t> row_of_;  // by the sample's index; 0: not here
  std::int64_t rows_ = 1;
};

// Throws Error(usage) when the plan, which has these sets, is more than the device's memory.
void check_fit(const std::vector<ResidentSet>& sets, const MemoryPlan& plan, const DeviceInfo& device);

}  // namespace millrace::cuda
