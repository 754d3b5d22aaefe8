// Tracks allocations of a device's memory for out-of-memory messages. Plain bookkeeping, tested without a device.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace millrace::cuda {

// Thread-safe.
class MemoryTable {
 public:
  void add(const void* memory, std::size_t bytes, const std::string& what);
  void remove(const void* memory);
  std::size_t total() const;

  // "out of memory: 'activations' needs 12.30 GB; this program holds 60.10 GB (activations 50.00 GB, weights 10.10 GB), 3.00 GB
  // of 80.00 GB are free; ...". Allocations with the same name are added up, the largest listed first.
  std::string out_of_memory(std::size_t bytes, const std::string& what, std::size_t free, std::size_t device_total) const;

 private:
  struct Entry {
    std::size_t bytes = 0;
    std::string what;
  };
  mutable std::mutex mutex_;
  std::map<const void*, Entry> entries_;
};

}  // namespace millrace::cuda
