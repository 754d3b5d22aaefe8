#pragma once

#include <cstddef>

#include "machine.h"

namespace millrace::cuda {

// Pinned host memory, released by the destructor.
class HostMemory {
 public:
  HostMemory(Machine& machine, std::size_t bytes) : machine_(machine), data_(machine.allocate_host(bytes)), bytes_(bytes) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { machine_.release_host(data_); }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Machine& machine_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace millrace::cuda
