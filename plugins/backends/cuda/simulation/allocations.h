// The memory that a simulated machine has handed out, found again by address.
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

// Zeroed, aligned to 256 bytes, with guards before and after that stay untouched. The memory lives as long as this object; a
// released one is kept by the work that still names it, so that a mistake is reported rather than suffered.
class Allocation {
 public:
  Allocation(std::string name, std::size_t bytes, int machine, bool on_host);

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int machine() const { return machine_; }
  bool on_host() const { return on_host_; }
  bool intact() const;  // the guards are as they were

  // Whether queues write here: then its bytes may change without the host.
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
  // That in which the address lies; null: none.
  std::shared_ptr<Allocation> find(const void* address) const;
  // Null when nothing begins there.
  std::shared_ptr<Allocation> remove(const std::byte* data);
  bool holds(const Allocation& allocation) const { return find(allocation.data()).get() == &allocation; }
  std::vector<std::shared_ptr<Allocation>> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Allocation>> by_begin_;
  std::map<std::string, int> names_;  // how often each was given
};

}  // namespace millrace::cuda
