#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine.h"

namespace millrace::cuda {

// The images of one set that stay on the device: (1 + samples, H, W, C) uint8, in order of arrival. Row 0 is black and serves
// slots without weight. A row is written once, and all its readers are submitted later: readers wait for the copies submitted
// before them, and writers do not wait.
class ResidentImages {
 public:
  ResidentImages(Machine& machine, const ResidentSet& set);
  static MemoryPlan::Item plan(const ResidentSet& set);

  // Writes each slot's row, and submits copies of missing images: consecutive slots are one copy. Throws Error(device) for more
  // images than the set's declared size.
  void bring(const Batch& batch, std::uint32_t begin, std::uint32_t count, std::int32_t* rows, Queue& copy);

  const std::uint8_t* pixels() const { return memory_.as<std::uint8_t>(); }
  std::int64_t rows() const { return rows_; }  // present or being copied

 private:
  std::int32_t& row_of(std::uint64_t index);

  ResidentSet set_;
  DeviceMemory memory_;
  std::vector<std::int32_t> row_of_;  // by the sample's index; 0: missing
  std::int64_t rows_ = 1;
};

// Throws Error(usage) if the plan, including these sets, exceeds the device's memory.
void check_fit(const std::vector<ResidentSet>& sets, const MemoryPlan& plan, const DeviceInfo& device);

}  // namespace millrace::cuda
