#include "millrace/backend/update_plan.h"

#include <algorithm>

#include "millrace/backend/memory_planner.h"
#include "millrace/error.h"

namespace millrace {

const Optimizer& UpdatePlan::optimizer_of(int parameter) const {
  const std::vector<int>& chosen = spec().optimizer_of;
  return *spec().optimizers[chosen.empty() ? 0 : static_cast<std::size_t>(chosen[static_cast<std::size_t>(parameter)])];
}

void UpdatePlan::plan() {
  if (spec().optimizers.empty() || parameters_.options().train_batch == 0) return;
  for (const Bucket& bucket : parameters_.buckets()) {
    std::vector<Range>& ranges = ranges_.emplace_back();
    for (const int index : bucket.parameters) {
      const Optimizer* const optimizer = &optimizer_of(index);
      if (ranges.empty() || ranges.back().optimizer != optimizer) ranges.push_back({.optimizer = optimizer});
      Range& range = ranges.back();
      range.parameters.push_back(index);
      range.elements += round_up(parameters_.elements(index), parameters_.alignment());
      range.rows += matrix_of(parameters_.parameter(index)).rows;
      range.column_packs += column_packs(parameters_.width(index));
    }
  }
}

const std::vector<UpdatePlan::Range>& UpdatePlan::ranges(int bucket) const {
  if (ranges_.empty()) fail(ErrorKind::usage, "nothing is updated: the network was compiled without an optimizer");
  return ranges_[static_cast<std::size_t>(bucket)];
}

bool UpdatePlan::needs_norms() const {
  const auto has_norms = [](const Range& range) {
    return range.optimizer->scope() != OptimizerScope::element || range.optimizer->keeps_reduced();
  };
  return std::ranges::any_of(ranges_, [&](const auto& ranges) { return std::ranges::any_of(ranges, has_norms); });
}

bool UpdatePlan::is_matrix(int index) const {
  const Parameter& parameter = parameters_.parameter(index);
  if (ranges_.empty() || !parameter.trainable || parameter.statistic) return false;
  return optimizer_of(index).scope() == OptimizerScope::matrix;
}

UpdateSegment UpdatePlan::segment(int index, std::span<const double> rate_factor, double rate) const {
  const auto i = static_cast<std::size_t>(index);
  const std::span<const double> factors = rate_factor.empty() ? std::span<const double>(spec().rate_factor) : rate_factor;
  const MatrixShape shape = matrix_of(parameters_.parameter(index));
  return UpdateSegment{.rate_factor = static_cast<float>((factors.empty() ? 1.0 : factors[i]) * rate),
                       .decay = spec().decay.empty() ? 0.0F : static_cast<float>(spec().decay[i]),
                       .rows = static_cast<std::int32_t>(shape.rows),
                       .columns = static_cast<std::int32_t>(shape.columns),
                       .width = parameters_.width(index)};
}

}  // namespace millrace
