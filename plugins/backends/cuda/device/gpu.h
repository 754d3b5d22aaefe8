// What one GPU has once a process, whatever number of devices and replicas are opened on it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "memory_table.h"
#include "millrace/backend/backend.h"
#include "runtime/tried.h"

namespace millrace::cuda {

struct DeviceLibraries;

// Memory comes from a pool: what is released is kept for the next allocation until a stream is waited for, or trim() gives it
// back to the driver. Thread-safe; each call makes the GPU the calling thread's current device.
class Gpu {
 public:
  explicit Gpu(DeviceInfo info);  // info.index is CUDA's number. Throws Error(device)
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const DeviceInfo& info() const { return info_; }
  int index() const { return info_.index; }
  int multiprocessors() const { return multiprocessors_; }
  MemoryTable& table() { return table_; }
  Tried& tried() { return tried_; }

  // In the order of `stream`. Null: there is not enough, though everything unused has been given back to the driver.
  // Throws Error(device) that names `what` for anything else.
  std::byte* take(std::size_t bytes, const std::string& what, cudaStream_t stream);
  void give(std::byte* memory, cudaStream_t stream) noexcept;
  void trim() noexcept;
  std::size_t free_memory();  // with what the pool keeps for the next allocation

  // Lets another device's kernels reach this one's memory; false: the hardware cannot. Copies between devices need no leave.
  bool admit(int other_device);
  void admitted_to(int other_device);  // its memory is reached from here from now on
  bool reaches(const void* memory);

  // Made with the first plan (cuda_machine_plans.cpp): only then are the libraries opened.
  std::shared_ptr<DeviceLibraries> libraries();

 private:
  void make_pool();

  const DeviceInfo info_;
  int multiprocessors_ = 0;
  cudaMemPool_t pool_ = nullptr;  // null: the device has none (some virtual ones), and cudaMalloc is used
  MemoryTable table_;
  Tried tried_;

  std::mutex mutex_;       // of all that follows
  std::set<int> reached_;  // devices
  std::shared_ptr<DeviceLibraries> libraries_;
};

}  // namespace millrace::cuda
