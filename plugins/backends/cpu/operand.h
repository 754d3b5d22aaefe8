// A oneDNN primitive and its arguments in an executable's memory.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "operation.h"

namespace millrace::cpu {

// An argument of a oneDNN primitive whose layout or type may differ from the primitive's.
class Operand {
 public:
  // Plans a temporary for the planner's current time if `held` and `wanted` differ, and returns true then. The copies between
  // them are checked.
  bool plan(Planner& planner, const PrimitiveChecks& checks, const dnnl::memory::desc& held, const dnnl::memory::desc& wanted);
  // `data`: the held memory.
  void bind(const dnnl::engine& engine, const Binding& binding, void* data);

  const dnnl::memory& memory() const { return wanted_; }  // the primitive's argument
  void load(dnnl::stream& stream);                        // held -> wanted, before the primitive reads it
  void store(dnnl::stream& stream);                       // wanted -> held, after the primitive wrote it

 private:
  void reorder(dnnl::memory& from, dnnl::memory& to, dnnl::stream& stream);

  dnnl::memory::desc held_desc_, wanted_desc_;
  TensorId temporary_ = kNoTensor;
  dnnl::memory held_, wanted_;
  dnnl::primitive reorder_;
};

// A oneDNN primitive with its scratchpad, which can stay unbound.
struct Step {
  dnnl::primitive_desc_base desc;
  dnnl::primitive primitive;
  TensorId scratch = kNoTensor;
  dnnl::memory scratch_memory;

  explicit operator bool() const { return static_cast<bool>(primitive); }
  void plan(Planner& planner, const dnnl::primitive_desc_base& chosen);
  void bind(const Binding& binding, const dnnl::engine& engine);
};

}  // namespace millrace::cpu
