// What a machine's libraries compute. Apart, so that tests of the rest need no library.
#include <algorithm>

#include "cuda_machine.h"
#include "errors.h"
#include "library_plans.h"

namespace millrace::cuda {

void CudaMachine::choose_plans(const PlanChoice& how) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(planners_.begin(), planners_.end(), [&](const Planner& planner) { return planner.how == how; });
  chosen_ = static_cast<std::size_t>(known - planners_.begin());
  if (known == planners_.end()) planners_.push_back({how, nullptr});
}

std::string CudaMachine::plans(const PlanChoice& how) {
  const std::lock_guard lock(mutex_);
  for (const Planner& planner : planners_) {
    if (planner.how == how && planner.planner) return planner.planner->record();
  }
  return {};
}

// REQUIRES: mutex_ is held.
LibraryPlanner& CudaMachine::planner() {
  use_device(info_.index);
  Planner& chosen = planners_[chosen_];
  if (!chosen.planner) {
    PlanOptions options;
    options.tune = chosen.how.tune;
    options.deterministic = chosen.how.deterministic;
    chosen.planner = std::make_shared<LibraryPlanner>(info_.index, options, chosen.how.saved);
  }
  return *chosen.planner;
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const ConvolutionShape& shape) {
  const std::lock_guard lock(mutex_);
  return planner().convolution(shape);
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const LinearShape& shape) {
  const std::lock_guard lock(mutex_);
  return planner().linear(shape);
}

}  // namespace millrace::cuda
