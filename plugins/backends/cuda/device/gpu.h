// State of one GPU, once per process, for any number of devices and replicas on it.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "memory_table.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/engine_choices.h"

namespace millrace::cuda {

struct DeviceLibraries;

// The engine choices of a process, for each model of GPU and versions of libraries: GPUs of one model share them, so that only
// the first one checks and times engines, and equal replicas use equal engines. Not thread-safe.
class ChoicesByModel {
 public:
  std::shared_ptr<EngineChoices> of(const DeviceInfo& info);  // reads their file at the first call

 private:
  std::map<std::string, std::shared_ptr<EngineChoices>> known_;
};

// Memory comes from a pool: released memory is kept for the next allocation until a stream is synchronised or trim() returns it
// to the driver. Thread-safe; each call makes the GPU the calling thread's current device.
class Gpu {
 public:
  // info.index is CUDA's number. `choices`: ChoicesByModel::of(info). Throws Error(device).
  Gpu(DeviceInfo info, std::shared_ptr<EngineChoices> choices);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const DeviceInfo& info() const { return info_; }
  int index() const { return info_.index; }
  int multiprocessors() const { return multiprocessors_; }
  MemoryTable& table() { return table_; }
  EngineChoices& choices() { return *choices_; }

  // In the order of `stream`. Null if there is not enough even after returning all unused memory to the driver. Throws
  // Error(device), naming `what`, for other errors.
  std::byte* take(std::size_t bytes, const std::string& what, cudaStream_t stream);
  void give(std::byte* memory, cudaStream_t stream) noexcept;
  void trim() noexcept;
  std::size_t free_memory();  // including unused memory in the pool

  // Gives another device's kernels access to this one's memory; false if the hardware cannot. Copies between devices do not need
  // it.
  bool admit(int other_device);
  void admitted_to(int other_device);  // records that this device can access its memory
  bool reaches(const void* memory);

  // Created with the first plan (library_plans.cpp), which loads the libraries.
  std::shared_ptr<DeviceLibraries> libraries();

 private:
  void make_pool();

  const DeviceInfo info_;
  int multiprocessors_ = 0;
  cudaMemPool_t pool_ = nullptr;  // null if the device has none (some virtual ones); then cudaMalloc is used
  MemoryTable table_;
  const std::shared_ptr<EngineChoices> choices_;

  std::mutex mutex_;       // guards the fields below
  std::set<int> reached_;  // devices
  std::shared_ptr<DeviceLibraries> libraries_;
};

}  // namespace millrace::cuda
