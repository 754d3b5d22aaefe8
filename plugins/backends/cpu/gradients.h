// The gradients of one replica, and those of earlier pieces of its batch, which are kept aside to be added.
#pragma once

#include "memory_region.h"
#include "millrace/backend/parameter_plan.h"

namespace millrace::cpu {

// Threading: the replica's thread.
class Gradients {
 public:
  explicit Gradients(const ParameterPlan& plan) : plan_(plan) {}  // which outlives this object
  void start();

  // ---- After start() ----
  float* at(int parameter) const { return present_.as<float>() + plan_.offset(parameter); }
  bool exist() const { return present_.bytes() > 0; }

  void zero();
  void keep();                // aside. Throws Error(usage) where the network was compiled for whole batches
  void add_kept(int bucket);  // what keep() put aside, to the bucket's gradients

 private:
  const ParameterPlan& plan_;
  MemoryRegion present_, kept_;
};

}  // namespace millrace::cpu
