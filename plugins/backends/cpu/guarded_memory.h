// Scratch memory for kernels that are not trusted yet. Guards with a pattern lie between its parts, and 16 MiB of empty pages in
// front of them all and after: a write to either is found, and crashes nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "memory_region.h"

namespace millrace::cpu {

class GuardedMemory {
 public:
  struct Part {
    std::string name;  // for messages
    std::size_t bytes = 0;
  };

  // In `memory`, which grows where it is too small: fresh pages for every kernel would cost more than most kernels. Every byte is
  // 0xff at first, in parts and guards: a NaN in every type, so that what was read but not written shows in sums.
  GuardedMemory(MemoryRegion& memory, std::vector<Part> parts);

  void* at(std::size_t part) const { return data_ + offsets_[part]; }  // aligned as the planner's tensors are
  // "writes in front of the weights"; empty: no guard has changed.
  std::string damage() const;

 private:
  std::size_t end_of(std::size_t part) const { return offsets_[part] + parts_[part].bytes; }

  std::vector<Part> parts_;
  std::vector<std::size_t> offsets_;
  std::size_t bytes_ = 0;
  std::byte *data_ = nullptr, *behind_ = nullptr;  // the first guard; the pages after all
};

}  // namespace millrace::cpu
