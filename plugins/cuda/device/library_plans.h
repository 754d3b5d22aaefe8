// How one device's libraries compute: chosen once for each shape.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "../machine.h"
#include "plan_cache.h"
#include "plan_options.h"

namespace millrace::cuda {

class CublasLtHandle;
class CudnnHandles;

// Makes plans, and gives equal shapes the same one. Libraries are opened when they are first needed. Choices that took long to
// make, because engines were timed or their code was compiled on the spot, are kept on disk (plan_cache.h) by shape and options,
// for the model of the device and the versions of the libraries; asking the heuristics takes about 10 ms and is done anew. Plans
// may outlive it. Thread-safe; the device becomes the calling thread's current one.
class LibraryPlanner {
 public:
  using Warn = std::function<void(std::string_view)>;

  // `warn`: of what is not as it should be but does no harm; default: a line on stderr.
  LibraryPlanner(int device, const PlanOptions& options, Warn warn = {});
  ~LibraryPlanner();
  LibraryPlanner(const LibraryPlanner&) = delete;
  LibraryPlanner& operator=(const LibraryPlanner&) = delete;

  // Throw Error(usage) for what the library has no engine for, Error(device) when it is missing or fails.
  std::shared_ptr<const LibraryPlan> convolution(const ConvolutionShape& shape);
  std::shared_ptr<const LibraryPlan> linear(const LinearShape& shape);

 private:
  std::string key(const std::string& text) const;
  PlanCache& cache();
  void open_cudnn();
  void open_cublaslt();
  std::shared_ptr<const LibraryPlan> make_convolution(const ConvolutionShape& shape, const std::string& name);
  std::shared_ptr<const LibraryPlan> make_linear(const LinearShape& shape, const std::string& name);

  const int device_;
  const PlanOptions options_;
  const Warn warn_;
  std::mutex mutex_;  // of all that follows
  std::shared_ptr<CudnnHandles> cudnn_;
  std::shared_ptr<const CublasLtHandle> cublaslt_;
  std::unique_ptr<PlanCache> cache_;
  std::map<std::string, std::shared_ptr<const LibraryPlan>> plans_;
};

}  // namespace millrace::cuda
