#include "operand.h"

#include "primitives.h"

namespace millrace::cpu {

bool Operand::plan(Planner& planner, const PrimitiveChecks& checks, const dnnl::memory::desc& held,
                   const dnnl::memory::desc& wanted) {
  held_desc_ = held;
  wanted_desc_ = wanted;
  temporary_ = held == wanted ? kNoTensor : planner.tensor(wanted.get_size());
  if (temporary_ == kNoTensor) return false;
  checks.require_right_copies(held, wanted);
  return true;
}

void Operand::bind(const dnnl::engine& engine, const Binding& binding, void* data) {
  held_ = dnnl::memory(held_desc_, engine, data);
  wanted_ = temporary_ == kNoTensor ? held_ : dnnl::memory(wanted_desc_, engine, binding.at(temporary_));
  reorder_ = dnnl::primitive();
}

void Operand::reorder(dnnl::memory& from, dnnl::memory& to, dnnl::stream& stream) {
  if (!reorder_) reorder_ = dnnl::reorder(from, to);
  reorder_.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Operand::load(dnnl::stream& stream) {
  if (temporary_ != kNoTensor) reorder(held_, wanted_, stream);
}

void Operand::store(dnnl::stream& stream) {
  if (temporary_ != kNoTensor) reorder(wanted_, held_, stream);
}

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
