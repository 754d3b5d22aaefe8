// Scratch memory for kernels that are not trusted yet. Guards with a pattern separate its parts, and 16 MiB of empty pages
// surround them: writes to either are detected without a crash.
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

  // Uses `memory`, which grows if needed: fresh pages for every kernel would cost more than most kernels. Every byte is initially
  // 0xff, in parts and guards: NaN in every type, so that unwritten values show in sums.
  GuardedMemory(MemoryRegion& memory, std::vector<Part> parts);

  void* at(std::size_t part) const { return data_ + offsets_[part]; }  // aligned like the planner's tensors
  // "writes in front of the weights"; empty if no guard has changed.
  std::string damage() const;

 private:
  std::size_t end_of(std::size_t part) const { return offsets_[part] + parts_[part].bytes; }

  std::vector<Part> parts_;
  std::vector<std::size_t> offsets_;
  std::size_t bytes_ = 0;
  std::byte *data_ = nullptr, *behind_ = nullptr;  // the first guard; the pages after all parts
};

}  // namespace millrace::cpu
