// A oneDNN primitive with its scratchpad, which can stay unbound.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "operation.h"

namespace millrace::cpu {

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
