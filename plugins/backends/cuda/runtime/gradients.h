// The gradients of one replica in device memory, and those of earlier pieces of its batch, which are kept aside to be added.
#pragma once

#include "machine.h"
#include "millrace/backend/parameter_plan.h"

namespace millrace::cuda {

// One thread at a time. Nothing here waits for the device.
class Gradients {
 public:
  explicit Gradients(const ParameterPlan& plan) : plan_(plan) {}  // which outlives this object
  void start(Machine& machine);

  // ---- After start() ----
  float* at(int parameter) const { return present_.as<float>() + plan_.offset(parameter); }
  bool exist() const { return present_.bytes() > 0; }

  void zero(Queue& queue);
  void keep(Queue& queue);                  // aside. Throws Error(usage) where the network was compiled for whole batches
  void add_kept(Queue& queue, int bucket);  // what keep() put aside, to the bucket's gradients

 private:
  const ParameterPlan& plan_;
  DeviceMemory present_, kept_;
};

}  // namespace millrace::cuda
