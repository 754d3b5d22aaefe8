// The weighted sum of a network's outputs for several views of the same images (test-time augmentation), in float32.
#pragma once

#include "map_values.h"
#include "memory_region.h"

namespace millrace::cpu {

// Threading: the replica's thread.
class ViewSum {
 public:
  static std::size_t bytes(const Network& network, std::uint32_t samples);

  void reserve(std::size_t bytes) { memory_ = MemoryRegion(bytes); }
  void begin(const Map& output);  // zeros with the shape of this output
  void add(const Map& output, const View& view) { add_view(output, view, sum_); }
  void clear() { sum_ = {}; }  // discards the sum until the next begin()

  bool exists() const { return sum_.data != nullptr; }
  const Map& get() const { return sum_; }

 private:
  MemoryRegion memory_;
  Map sum_;
};

}  // namespace millrace::cpu
