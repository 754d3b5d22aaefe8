// An argument of a oneDNN primitive that may lie in another layout or type than the primitive wants.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "operation.h"

namespace millrace::cpu {

class Operand {
 public:
  // Plans a temporary, alive at the planner's present time, when `held` and `wanted` differ. True when they do.
  // The copies between them are checked.
  bool plan(Planner& planner, const PrimitiveChecks& checks, const dnnl::memory::desc& held, const dnnl::memory::desc& wanted);
  // `data`: where it is held.
  void bind(const dnnl::engine& engine, const Binding& binding, void* data);

  const dnnl::memory& memory() const { return wanted_; }  // what the primitive gets
  void load(dnnl::stream& stream);                        // held -> wanted, before the primitive reads it
  void store(dnnl::stream& stream);                       // wanted -> held, after the primitive wrote it

 private:
  void reorder(dnnl::memory& from, dnnl::memory& to, dnnl::stream& stream);

  dnnl::memory::desc held_desc_, wanted_desc_;
  TensorId temporary_ = kNoTensor;
  dnnl::memory held_, wanted_;
  dnnl::primitive reorder_;
};

}  // namespace millrace::cpu
