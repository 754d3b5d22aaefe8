// Which parameters an update of a bucket takes together, and with which numbers. Pure.
//
// Parameters of one bucket and one optimizer lie side by side (parameter_plan.h). Such a range covers their values, gradients and
// each of the optimizer's states (state_plan.h), so that an update runs over arrays side by side.
//
// Threading: one thread plans; afterwards it is read from any.
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
    std::int64_t rows = 0, column_packs = 0;  // of all parameters, as in UpdateArguments
  };

  // `parameters` outlives this plan.
  explicit UpdatePlan(const ParameterPlan& parameters) : parameters_(parameters) {}

  void plan();  // REQUIRES: the parameters are placed

  bool is_empty() const { return ranges_.empty(); }  // there is no optimizer, or nothing is trained
  // The ranges of a bucket, in the order in which they lie. Throws Error(usage) where the plan is empty.
  const std::vector<Range>& ranges(int bucket) const;
  const Optimizer& optimizer_of(int parameter) const;  // REQUIRES: not empty, and the parameter is trained
  bool needs_norms() const;                            // some optimizer asks for norms or means of whole parameters
  bool is_matrix(int parameter) const;                 // it is trained by an optimizer of scope `matrix`
  // The parameter's numbers for its optimizer; `rate_factor` as in UpdateStep, `rate` multiplies it. Where it begins is left to
  // the backend.
  UpdateSegment segment(int parameter, std::span<const double> rate_factor, double rate = 1) const;

 private:
  const OptimizerSpec& spec() const { return parameters_.options().request.update; }

  const ParameterPlan& parameters_;
  std::vector<std::vector<Range>> ranges_;  // by bucket
};

}  // namespace millrace
