#include "millrace/backend/store_plan.h"

#include <string>

namespace millrace {

void StorePlan::plan(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment) {
  parameters.place(elements, widths, alignment);
  updates.plan();
  states.plan();
}

void StorePlan::append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms, std::size_t workspace) const {
  const auto add = [&](const std::string& what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  add("weights", parameters.all() * sizeof(float));
  add("weights in bf16", bf16 * sizeof(std::uint16_t));
  add("gradients of weights", parameters.gradients() * sizeof(float));
  add("gradients of earlier pieces", parameters.kept_gradients() * sizeof(float));
  for (const StatePlan::State& state : states.all()) add(state.name + " of weights", state.elements * sizeof(float));
  add("norms of parameters", norms);
  add("workspace of updates", workspace);
}

}  // namespace millrace
