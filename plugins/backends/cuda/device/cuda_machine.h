// One CUDA device: its memory, queues and library plans.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_queue.h"
#include "gpu.h"
#include "marks.h"
#include "millrace/cuda/native.h"
#include "runtime/machine.h"

namespace millrace::cuda {

class LibraryPlanner;

// One device object's view of a GPU: its queues and choices. Pool, libraries and plans belong to the GPU and are shared by all
// machines. Thread-safe; each call makes the device the calling thread's current one. Queues and plans must be destroyed before
// the machine.
class CudaMachine final : public Machine {
 public:
  explicit CudaMachine(std::shared_ptr<Gpu> gpu);  // throws Error(device)
  ~CudaMachine() override;

  const DeviceInfo& info() const override { return gpu_->info(); }
  std::byte* allocate(std::size_t bytes, const std::string& what) override;
  void release(std::byte* memory) noexcept override;  // waits for the work of all queues
  std::byte* allocate_host(std::size_t bytes) override;
  void release_host(std::byte* memory) noexcept override;
  std::size_t free_memory() override { return gpu_->free_memory(); }
  std::unique_ptr<Queue> make_queue(const std::string& name) override;
  std::shared_ptr<const LibraryPlan> plan(const ConvolutionShape& shape, const PlanChoice& how) override;
  std::shared_ptr<const LibraryPlan> plan(const LinearShape& shape, const PlanChoice& how) override;
  std::string plans(const PlanChoice& how) override;
  EngineChoices& choices() override { return gpu_->choices(); }
  double seconds_between(const Event& first, const Event& second) override;
  void finish() override;
  void* native(const std::string& api) override;  // "cuda": a NativeCuda

  bool reaches(const void* memory) override { return gpu_->reaches(memory); }

 private:
  struct Guest {  // returned by native()
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

  LibraryPlanner& planner(const PlanChoice& how);                    // REQUIRES: planning_ is held
  std::shared_ptr<CudaStream> make_stream(const std::string& name);  // REQUIRES: mutex_ is held
  std::vector<std::shared_ptr<CudaStream>> streams();

  const std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<CudaStream> own_;  // takes, zeroes and frees memory

  std::mutex planning_;  // held while plans are made, which takes and releases memory
  std::vector<Planner> planners_;

  std::mutex mutex_;  // guards the fields below
  std::vector<std::weak_ptr<CudaStream>> streams_;
  std::unique_ptr<Guest> guest_;
};

}  // namespace millrace::cuda
