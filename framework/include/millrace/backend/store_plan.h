// The part of a parameter store that all backends share: layout, updates and states of parameters. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/backend/parameter_plan.h"
#include "millrace/backend/state_plan.h"
#include "millrace/backend/update_plan.h"

namespace millrace {

// Threading: one thread plans; afterwards reads are thread-safe.
struct StorePlan {
  // `network` and `options` outlive the plan.
  StorePlan(const Network& network, const CompileOptions& options) : parameters(network, options) {}
  StorePlan(const StorePlan&) = delete;
  StorePlan& operator=(const StorePlan&) = delete;

  // See ParameterPlan::place(). Throws Error(usage) for a parameter that its optimizer cannot update.
  void plan(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment);
  // `bf16`: elements of a second copy of the values; `norms`, and `workspace` for optimizers of scope `matrix`: bytes.
  void append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms, std::size_t workspace) const;

  ParameterPlan parameters;
  UpdatePlan updates{parameters};
  StatePlan states{parameters, updates};
};

}  // namespace millrace
