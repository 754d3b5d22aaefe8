#include "planner.h"

#include <algorithm>

namespace millrace::cpu {

TensorId Planner::tensor(std::size_t bytes) {
  lifetimes_.push_back({bytes, now_, now_});
  return static_cast<TensorId>(lifetimes_.size()) - 1;
}

void Planner::use_at(TensorId tensor, int time) {
  Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(tensor)];
  lifetime.first = std::min(lifetime.first, time);
  lifetime.last = std::max(lifetime.last, time);
}

Planner::Contribution Planner::contribute(int layer) {
  Value& target = value(layer);
  const TensorId written = tensor(target.spec.bytes());
  if (target.gradient == kNoTensor) {
    target.gradient = written;
    return {written, false, written};
  }
  use(target.gradient);
  return {written, true, target.gradient};
}

Planner::Contribution Planner::contribute_in(int layer, TensorId tensor) {
  Value& target = value(layer);
  use(tensor);
  if (target.gradient == kNoTensor) {
    target.gradient = tensor;
    return {tensor, false, tensor};
  }
  use(target.gradient);
  return {tensor, true, target.gradient};
}

}  // namespace millrace::cpu
