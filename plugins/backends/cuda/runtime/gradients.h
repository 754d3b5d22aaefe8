// The gradients of one replica in device memory, and those accumulated from earlier pieces of its batch.
#pragma once

#include "machine.h"
#include "millrace/backend/parameter_plan.h"

namespace millrace::cuda {

// Not thread-safe. Nothing here waits for the device.
class Gradients {
 public:
  explicit Gradients(const ParameterPlan& plan) : plan_(plan) {}  // `plan` must outlive this object
  void start(Machine& machine);

  // ---- After start() ----
  float* at(int parameter) const { return present_.as<float>() + plan_.offset(parameter); }
  bool exist() const { return present_.bytes() > 0; }

  void zero(Queue& queue);
  void keep(Queue& queue);                  // puts gradients aside. Throws Error(usage) if compiled for whole batches
  void add_kept(Queue& queue, int bucket);  // adds the accumulated gradients to the bucket's

 private:
  const ParameterPlan& plan_;
  DeviceMemory present_, kept_;
};

}  // namespace millrace::cuda
