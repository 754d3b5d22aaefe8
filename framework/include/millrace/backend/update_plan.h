// Groups a bucket's parameters for updates, with their numbers. Pure.
//
// Parameters of one bucket and one optimizer are contiguous (parameter_plan.h). The same range covers their values, gradients and
// each of the optimizer's states (state_plan.h), so an update runs over parallel arrays.
//
// Threading: one thread plans; afterwards reads are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/backend/parameter_plan.h"

namespace millrace {

class UpdatePlan {
 public:
  // Parameters of one bucket and one optimizer.
  struct Range {
    const Optimizer* optimizer = nullptr;
    std::vector<int> parameters = {};
    std::size_t elements = 0;                 // with padding
    std::int64_t rows = 0, column_packs = 0;  // over all parameters, as in UpdateArguments
  };

  // `parameters` outlives this plan.
  explicit UpdatePlan(const ParameterPlan& parameters) : parameters_(parameters) {}

  void plan();  // REQUIRES: the parameters are placed

  bool is_empty() const { return ranges_.empty(); }  // no optimizer, or nothing is trained
  // The ranges of a bucket, in memory order. Throws Error(usage) if the plan is empty.
  const std::vector<Range>& ranges(int bucket) const;
  const Optimizer& optimizer_of(int parameter) const;  // REQUIRES: not empty, and the parameter is trained
  bool needs_norms() const;                            // some optimizer needs norms or means of whole parameters
  bool is_matrix(int parameter) const;                 // trained by an optimizer of scope `matrix`
  // The parameter's numbers for its optimizer; `rate_factor` as in UpdateStep, multiplied by `rate`. The backend sets where it
  // begins.
  UpdateSegment segment(int parameter, std::span<const double> rate_factor, double rate = 1) const;

 private:
  const OptimizerSpec& spec() const { return parameters_.options().request.update; }

  const ParameterPlan& parameters_;
  std::vector<std::vector<Range>> ranges_;  // by bucket
};

}  // namespace millrace
