#include "gradients.h"

#include <cstring>

#include "kernels/kernels.h"
#include "millrace/error.h"

namespace millrace::cpu {

void Gradients::start() {
  present_ = MemoryRegion(plan_.gradients() * sizeof(float));
  kept_ = MemoryRegion(plan_.kept_gradients() * sizeof(float));
}

void Gradients::zero() {
  if (exist()) std::memset(present_.as<float>(), 0, present_.bytes());
}

void Gradients::keep() {
  if (kept_.bytes() == 0) fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
  std::memcpy(kept_.as<float>(), present_.as<float>(), present_.bytes());
}

void Gradients::add_kept(int bucket) {
  const Bucket& sum = plan_.buckets()[static_cast<std::size_t>(bucket)];
  const float* const both[] = {kept_.as<float>() + plan_.offset(sum.parameters.front()), sum.gradients};
  kernels().sum(sum.gradients, both, 2, sum.elements);
}

}  // namespace millrace::cpu
