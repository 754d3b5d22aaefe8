// A simulated machine's allocations, found by address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace millrace::cuda {

// Zeroed, aligned to 256 bytes, surrounded by guards that stay untouched. The memory lives as long as this object; work that
// refers to a released allocation keeps it, so that a mistake is reported instead of causing harm.
class Allocation {
 public:
  Allocation(std::string name, std::size_t bytes, int machine, bool on_host);

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int machine() const { return machine_; }
  bool on_host() const { return on_host_; }
  bool intact() const;  // true if the guards are unchanged

  // True if queues write here: then its bytes may change without the host.
  bool written_by_queues() const { return written_by_queues_; }
  void set_written_by_queues() { written_by_queues_ = true; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  const std::string name_;
  const std::size_t bytes_;
  const int machine_;
  const bool on_host_;
  std::unique_ptr<std::byte[], Free> memory_;
  std::byte* data_ = nullptr;
  std::atomic<bool> written_by_queues_ = false;
};

// Thread-safe.
class Allocations {
 public:
  std::shared_ptr<Allocation> add(const std::string& what, std::size_t bytes, int machine, bool on_host);
  // The allocation that contains the address; null if none.
  std::shared_ptr<Allocation> find(const void* address) const;
  // Null if no allocation begins there.
  std::shared_ptr<Allocation> remove(const std::byte* data);
  bool holds(const Allocation& allocation) const { return find(allocation.data()).get() == &allocation; }
  std::vector<std::shared_ptr<Allocation>> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Allocation>> by_begin_;
  std::map<std::string, int> names_;  // number of allocations by name
};

}  // namespace millrace::cuda
