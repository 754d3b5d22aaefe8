#include "gradients.h"

#include "millrace/error.h"

namespace millrace::cuda {

void Gradients::start(Machine& machine) {
  present_ = DeviceMemory(machine, plan_.gradients() * sizeof(float), "gradients of weights");
  kept_ = DeviceMemory(machine, plan_.kept_gradients() * sizeof(float), "gradients of earlier pieces");
}

void Gradients::zero(Queue& queue) {
  if (exist()) queue.zero(present_.data(), present_.bytes());
}

void Gradients::keep(Queue& queue) {
  if (kept_.bytes() == 0) fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
  queue.copy(kept_.data(), present_.data(), kept_.bytes());
}

void Gradients::add_kept(Queue& queue, int bucket) {
  const Bucket& sum = plan_.buckets()[static_cast<std::size_t>(bucket)];
  SumArrays kernel;
  kernel.sources[0] = kept_.as<float>() + plan_.offset(sum.parameters.front());
  kernel.sources[1] = sum.gradients;
  kernel.count = 2;
  kernel.destination = sum.gradients;
  kernel.elements = static_cast<std::int64_t>(sum.elements);
  queue.run(kernel);
}

}  // namespace millrace::cuda
