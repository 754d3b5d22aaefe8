// How one device's libraries compute: chosen once for each shape.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "../machine.h"
#include "cuda_queue.h"
#include "plan_cache.h"
#include "plan_options.h"

namespace millrace::cuda {

class CublasLtHandle;
class CudnnHandles;

// Makes plans, and gives equal shapes the same one. Libraries are opened when they are first needed. Choices that took long to
// make, because engines were timed or their code was compiled on the spot, are kept on disk (plan_cache.h) by shape and options,
// for the model of the device and the versions of the libraries; asking the heuristics takes about 10 ms and is done anew. Plans
// may outlive it. What an earlier run chose and saved comes before both (plan_record.h). Thread-safe; the device becomes the
// calling thread's current one.
class LibraryPlanner {
 public:
  using Warn = std::function<void(std::string_view)>;

  // `warn`: of what is not as it should be but does no harm; default: a line on stderr.
  LibraryPlanner(int device, const PlanOptions& options, const std::string& saved = {}, Warn warn = {});
  ~LibraryPlanner();
  LibraryPlanner(const LibraryPlanner&) = delete;
  LibraryPlanner& operator=(const LibraryPlanner&) = delete;

  // Throw Error(usage) for what the library has no engine for, Error(device) when it is missing or fails.
  std::shared_ptr<const LibraryPlan> convolution(const ConvolutionShape& shape);
  std::shared_ptr<const LibraryPlan> linear(const LinearShape& shape);
  std::string record() const { return record_.text(); }  // of all choices, for a later run

 private:
  std::string key(const std::string& text) const;
  PlanCache& cache();
  // The place of the fastest of the plans by measurement, or of the only one.
  template <class Plan, class Shape>
  std::size_t pick(const std::vector<std::shared_ptr<const Plan>>& plans, const Shape& shape);
  void open_cudnn();
  void open_cublaslt();
  std::shared_ptr<const LibraryPlan> make_convolution(const ConvolutionShape& shape, const std::string& name);
  std::shared_ptr<const LibraryPlan> make_linear(const LinearShape& shape, const std::string& name);

  const int device_;
  const PlanOptions options_;
  const Warn warn_;
  PlanRecord record_;
  std::mutex mutex_;  // of all that follows
  std::shared_ptr<CudnnHandles> cudnn_;
  std::shared_ptr<const CublasLtHandle> cublaslt_;
  std::unique_ptr<PlanCache> cache_;
  std::unique_ptr<CudaStream> measuring_;  // one for all measurements, since cuDNN keeps a handle for each stream
  std::map<std::string, std::shared_ptr<const LibraryPlan>> plans_;
};

}  // namespace millrace::cuda
