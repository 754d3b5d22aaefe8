// Who holds how much of a device's memory: what an out-of-memory message is made of. Plain bookkeeping, tested without a device.
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
  // of 80.00 GB are free; ...". What several allocations share by name is added up, the largest named first.
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
