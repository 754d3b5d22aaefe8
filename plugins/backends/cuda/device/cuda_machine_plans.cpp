// A machine's library plans. Separate, so that other tests need no library.
#include <algorithm>

#include "cuda_machine.h"
#include "errors.h"
#include "library_plans.h"

namespace millrace::cuda {

std::shared_ptr<DeviceLibraries> Gpu::libraries() {
  const std::lock_guard lock(mutex_);
  if (!libraries_) libraries_ = std::make_shared<DeviceLibraries>();
  return libraries_;
}

LibraryPlanner& CudaMachine::planner(const PlanChoice& how) {
  const auto known = std::find_if(planners_.begin(), planners_.end(), [&](const Planner& planner) { return planner.how == how; });
  if (known != planners_.end()) return *known->planner;
  PlanOptions options;
  options.tune = how.tune;
  options.deterministic = how.deterministic;
  options.compiles = compiles_by_environment();
  auto made = std::make_shared<LibraryPlanner>(*this, gpu_->libraries(), options, how.saved);
  return *planners_.emplace_back(how, std::move(made)).planner;
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const ConvolutionShape& shape, const PlanChoice& how) {
  const std::lock_guard lock(planning_);
  return planner(how).convolution(shape);
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const LinearShape& shape, const PlanChoice& how) {
  const std::lock_guard lock(planning_);
  return planner(how).linear(shape);
}

std::string CudaMachine::plans(const PlanChoice& how) {
  const std::lock_guard lock(planning_);
  for (const Planner& planner : planners_) {
    if (planner.how == how) return planner.planner->record();
  }
  return {};
}

}  // namespace millrace::cuda
