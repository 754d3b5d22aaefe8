// How one device's libraries compute: chosen once for each shape.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "device_libraries.h"
#include "plan_options.h"
#include "runtime/engine_trial.h"

namespace millrace::cuda {

struct ConvolutionChoice;
struct ProductChoice;

// Makes plans, and gives equal shapes the same one. Every engine is run once on scratch memory before it is handed out
// (engine_trial.h); those that fail are passed over with a warning. Libraries are opened when they are first needed. Choices that
// took long to make, because engines were timed or their code was compiled on the spot, are kept on disk (plan_cache.h) by shape
// and options, for the model of the device and the versions of the libraries; asking the heuristics takes about 10 ms and is done
// again in each process. Plans may outlive it. What an earlier run chose and saved comes before both (plan_record.h).
// Thread-safe; the device becomes the calling thread's current one.
class LibraryPlanner {
 public:
  using Warn = std::function<void(std::string_view)>;

  // `machine` outlives it. `warn`: of what is not as it should be but does no harm; default: the machine's warn().
  LibraryPlanner(Machine& machine, std::shared_ptr<DeviceLibraries> libraries, const PlanOptions& options,
                 const std::string& saved = {}, Warn warn = {});
  ~LibraryPlanner();
  LibraryPlanner(const LibraryPlanner&) = delete;
  LibraryPlanner& operator=(const LibraryPlanner&) = delete;

  // Throw Error(usage) for what the library has no engine for, Error(device) when it is missing or fails.
  std::shared_ptr<const LibraryPlan> convolution(const ConvolutionShape& shape);
  std::shared_ptr<const LibraryPlan> linear(const LinearShape& shape);
  std::string record() const { return record_.text(); }  // of all choices, for a later run

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
  const std::shared_ptr<DeviceLibraries> libraries_;  // its mutex is held by all that is private
  const PlanOptions options_;
  const Warn warn_;
  PlanRecord record_;
  std::set<std::string> named_;  // libraries whose versions the record knows
  std::unique_ptr<Queue> trials_;
  std::map<std::string, std::shared_ptr<const LibraryPlan>> plans_;
};

}  // namespace millrace::cuda
