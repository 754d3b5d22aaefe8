// One CUDA device: its memory, its queues, and what its libraries compute.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../machine.h"
#include "cuda_queue.h"
#include "marks.h"
#include "memory_table.h"
#include "millrace/cuda/native.h"

namespace millrace::cuda {

class LibraryPlanner;

// Memory comes from a pool of its own, which keeps what is released for the next allocation. Thread-safe; each call makes the
// device the calling thread's current one. Queues and plans must go before the machine.
class CudaMachine final : public Machine {
 public:
  explicit CudaMachine(DeviceInfo info);  // info.index is CUDA's number. Throws Error(device)
  ~CudaMachine() override;

  const DeviceInfo& info() const override { return info_; }
  std::byte* allocate(std::size_t bytes, const std::string& what) override;
  void release(std::byte* memory) noexcept override;  // waits for the work of all queues
  std::byte* allocate_host(std::size_t bytes) override;
  void release_host(std::byte* memory) noexcept override;
  std::size_t free_memory() override;
  std::unique_ptr<Queue> make_queue(const std::string& name) override;
  std::shared_ptr<const LibraryPlan> plan(const ConvolutionShape& shape, const PlanChoice& how) override;
  std::shared_ptr<const LibraryPlan> plan(const LinearShape& shape, const PlanChoice& how) override;
  std::string plans(const PlanChoice& how) override;
  double seconds_between(const Event& first, const Event& second) override;
  void finish() override;
  void* native(const std::string& api) override;  // "cuda": a NativeCuda

  bool reaches(const void* memory) override;

  // Lets another device's kernels reach this one's memory; false: the hardware cannot. Copies between devices need no leave.
  bool admit(int other_device);
  void admitted_to(int other_device);  // its memory is reached from here from now on

 private:
  struct Guest {  // what native() hands out
    explicit Guest(std::shared_ptr<CudaStream> of);
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    std::shared_ptr<CudaStream> stream;
    std::shared_ptr<Marks> marks;
    NativeCuda handle;
  };

  struct Planner {
    PlanChoice how;
    std::shared_ptr<LibraryPlanner> planner;
  };

  void make_pool();
  std::byte* take(std::size_t bytes, const std::string& what);
  LibraryPlanner& planner(const PlanChoice& how);              // REQUIRES: mutex_ is held
  std::shared_ptr<CudaStream> make_stream(const std::string& name);  // REQUIRES: mutex_ is held
  std::vector<std::shared_ptr<CudaStream>> streams();

  const DeviceInfo info_;
  int multiprocessors_ = 0;
  cudaMemPool_t pool_ = nullptr;  // null: the device has none (some virtual ones), and cudaMalloc is used
  MemoryTable table_;
  std::unique_ptr<CudaStream> own_;  // where memory is taken, zeroed and given back

  std::mutex mutex_;  // of all that follows
  std::vector<std::weak_ptr<CudaStream>> streams_;
  std::unique_ptr<Guest> guest_;
  std::set<int> reached_;          // devices
  std::vector<Planner> planners_;  // made with the first plan: only then are the libraries opened
};

}  // namespace millrace::cuda
