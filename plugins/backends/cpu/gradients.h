// The gradients of one replica, and those accumulated from earlier pieces of its batch.
#pragma once

#include "memory_region.h"
#include "millrace/backend/parameter_plan.h"

namespace millrace::cpu {

// Threading: only on the replica's thread.
class Gradients {
 public:
  explicit Gradients(const ParameterPlan& plan) : plan_(plan) {}  // `plan` must outlive this object
  void start();

  // ---- After start() ----
  float* at(int parameter) const { return present_.as<float>() + plan_.offset(parameter); }
  bool exist() const { return present_.bytes() > 0; }

  void zero();
  void keep();                // puts the gradients aside. Throws Error(usage) if the network was compiled for whole batches
  void add_kept(int bucket);  // adds the accumulated gradients to the bucket's

 private:
  const ParameterPlan& plan_;
  MemoryRegion present_, kept_;
};

}  // namespace millrace::cpu
