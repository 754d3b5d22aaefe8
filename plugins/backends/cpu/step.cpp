#include "step.h"

#include "primitives.h"

namespace millrace::cpu {

void Step::plan(Planner& planner, const dnnl::primitive_desc_base& chosen) {
  desc = chosen;
  primitive = make_primitive(chosen);
  const std::size_t bytes = desc.scratchpad_desc().get_size();
  if (bytes > 0) scratch = planner.tensor(bytes);
}

void Step::bind(const Binding& binding, const dnnl::engine& engine) {
  if (primitive) scratch_memory = dnnl::memory(desc.scratchpad_desc(), engine, binding.at(scratch));
}

}  // namespace millrace::cpu
