// What a machine's libraries compute. Apart, so that tests of the rest need no library.
#include <algorithm>

#include "cuda_machine.h"
#include "errors.h"
#include "library_plans.h"

namespace millrace::cuda {

LibraryPlanner& CudaMachine::planner(const PlanChoice& how) {
  use_device(info_.index);
  const auto known = std::find_if(planners_.begin(), planners_.end(), [&](const Planner& planner) { return planner.how == how; });
  if (known != planners_.end()) return *known->planner;
  PlanOptions options;
  options.tune = how.tune;
  options.deterministic = how.deterministic;
  auto made = std::make_shared<LibraryPlanner>(info_.index, options, how.saved);
  return *planners_.emplace_back(how, std::move(made)).planner;
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const ConvolutionShape& shape, const PlanChoice& how) {
  const std::lock_guard lock(mutex_);
  return planner(how).convolution(shape);
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const LinearShape& shape, const PlanChoice& how) {
  const std::lock_guard lock(mutex_);
  return planner(how).linear(shape);
}

std::string CudaMachine::plans(const PlanChoice& how) {
  const std::lock_guard lock(mutex_);
  for (const Planner& planner : planners_) {
    if (planner.how == how) return planner.planner->record();
  }
  return {};
}

}  // namespace millrace::cuda
