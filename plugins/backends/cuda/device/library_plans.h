// Chooses library plans of one device, once per shape.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "cublaslt/api.h"
#include "cuda_queue.h"
#include "cudnn/handles.h"
#include "plan_cache.h"
#include "plan_options.h"
#include "runtime/engine_trial.h"

namespace millrace::cuda {

struct ChosenPlan {
  std::shared_ptr<const DevicePlan> plan;
  std::string text;  // the saved form of the choice
};

// cuDNN, cuBLASLt and the plans chosen, once per process and GPU: shared by all planners of one GPU, which fill it on first use.
// Handles take long to create; plans of equal shapes and options are the same for all networks. REQUIRES: `mutex` is held.
struct DeviceLibraries {
  std::mutex mutex;  // guards the fields below; held while a plan is made, since planning shares one of cuDNN's handles
  std::shared_ptr<CudnnHandles> cudnn;
  std::shared_ptr<const CublasLtHandle> cublaslt;
  std::unique_ptr<PlanCache> cache;
  std::map<std::string, ChosenPlan> plans;  // by shape and options
};

struct ConvolutionChoice;
struct ProductChoice;

// Makes plans, and shares one among equal shapes. Every engine runs once on scratch memory before it is returned
// (engine_trial.h); failing ones are skipped with a warning. Libraries are loaded on first use. Choices that took long, because
// engines were timed or compiled at run time, are stored on disk (plan_cache.h) by shape and options, for the model of the device
// and the versions of the libraries; the heuristics take about 10 ms and run again in each process. Plans may outlive the
// planner. Choices saved by an earlier run take precedence (plan_record.h). Thread-safe; the device becomes the calling thread's
// current one.
class LibraryPlanner {
 public:
  using Warn = std::function<void(std::string_view)>;

  // `machine` must outlive it. `warn`: for harmless problems; default: the machine's warn().
  LibraryPlanner(Machine& machine, std::shared_ptr<DeviceLibraries> libraries, const PlanOptions& options,
                 const std::string& saved = {}, Warn warn = {});
  ~LibraryPlanner();
  LibraryPlanner(const LibraryPlanner&) = delete;
  LibraryPlanner& operator=(const LibraryPlanner&) = delete;

  // Throw Error(usage) if the library has no engine, Error(device) if it is missing or fails.
  std::shared_ptr<const LibraryPlan> convolution(const ConvolutionShape& shape);
  std::shared_ptr<const LibraryPlan> linear(const LinearShape& shape);
  std::string record() const { return record_.text(); }  // all choices, for a later run

 private:
  using Saved = std::optional<std::string>;

  std::string key(const std::string& text) const;
  template <class Make>
  std::shared_ptr<const LibraryPlan> known_or(const char* library, const std::string& about, const Make& make);
  void open_cudnn();
  void open_cublaslt();
  void name_library(const char* name, std::size_t version);
  PlanCache& cache();
  Queue& trials();
  ChosenPlan make_convolution(const ConvolutionShape& shape, const std::string& name, const Saved& saved);
  std::shared_ptr<const ConvolutionChoice> restore(const ConvolutionShape& shape, const Saved& saved, const Saved& cached) const;
  ChosenPlan make_linear(const LinearShape& shape, const std::string& name, const Saved& saved);

  Machine& machine_;
  const std::shared_ptr<DeviceLibraries> libraries_;  // all private functions require its mutex
  const PlanOptions options_;
  const Warn warn_;
  PlanRecord record_;
  std::set<std::string> named_;  // libraries whose versions are in the record
  std::unique_ptr<Queue> trials_;
  std::map<std::string, std::shared_ptr<const LibraryPlan>> plans_;
};

}  // namespace millrace::cuda
