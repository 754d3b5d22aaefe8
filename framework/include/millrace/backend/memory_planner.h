// What a compiled network keeps in memory and for how long, and which tensors may share memory. Pure: for every backend.
//
// Operations announce their tensors to a planner, first all of them in the order of forward, then all in the order of backward.
// Then place() decides which tensors share memory. Time counts operations: 0 is ingest, then one step for each operation's
// forward, one for the loss, one for each operation's backward.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "millrace/backend/network.h"

namespace millrace {

constexpr std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// A tensor that is needed in the steps first ... last, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<std::size_t> offsets;  // by tensor; multiples of the alignment
  std::size_t bytes = 0;             // of the whole arena
};

// Gives tensors whose lifetimes overlap places that do not: largest first, each into the smallest gap that holds it
// ("greedy by size", Pisarchyk and Lee 2020, arXiv 2001.03288). Depends on nothing but its arguments.
Placement place(std::span<const Lifetime> tensors, std::size_t alignment);

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

// Spec: how a backend describes a tensor's shape, type and layout; has `std::size_t bytes() const`.
template <class Spec>
class MemoryPlanner {
 public:
  // An activation that passes from operation to operation.
  struct Value {
    Spec spec;
    TensorId tensor = kNoTensor;
    TensorId gradient = kNoTensor;  // given by the first operation whose backward contributes to it
    int readers = 0;                // operations
    bool needs_gradient = false;    // something before it is trained
  };

  // `learns`: see learns(); it means nothing without training.
  MemoryPlanner(bool training, std::size_t layers, bool learns = true)
      : training_(training), learns_(training && learns), values_(layers + 1) {}

  bool training() const { return training_; }  // backward follows forward, so that what it reads is kept
  // Batch statistics and dropout. False in inference, and where the gradient of a score is computed (ScoreGradient).
  bool learns() const { return learns_; }
  Value& value(LayerPort of) { return of.port == 0 ? values_[static_cast<std::size_t>(of.layer + 1)] : others_[of]; }
  const Value& value(LayerPort of) const {
    return of.port == 0 ? values_[static_cast<std::size_t>(of.layer + 1)] : others_.at(of);
  }

  void set_time(int time) { now_ = time; }
  int time() const { return now_; }
  TensorId tensor(std::size_t bytes) {  // a new one, alive now
    lifetimes_.push_back({bytes, now_, now_});
    return static_cast<TensorId>(lifetimes_.size()) - 1;
  }
  void use(TensorId tensor) { use_at(tensor, now_); }
  void use_at(TensorId tensor, int time) {
    Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(tensor)];
    lifetime.first = std::min(lifetime.first, time);
    lifetime.last = std::max(lifetime.last, time);
  }

  // A value's gradient, which the current backward is to write or, where another reader has already, to add to.
  struct Contribution {
    TensorId tensor = kNoTensor;  // where to write
    bool add = false;             // ... and then to add it to `gradient`
    TensorId gradient = kNoTensor;
  };
  Contribution contribute(LayerPort of) { return contribute_in(of, tensor(value(of).spec.bytes())); }
  // The same, when what would be written lies in `tensor` or can be made there, and that tensor is not needed any more.
  Contribution contribute_in(LayerPort of, TensorId tensor) {
    use(tensor);
    Value& target = value(of);
    if (target.gradient == kNoTensor) {
      target.gradient = tensor;
      return {tensor, false, tensor};
    }
    use(target.gradient);
    return {tensor, true, target.gradient};
  }
  // The same, for an operation that can itself add to what is there: no tensor beside the gradient is needed.
  Contribution accumulate(LayerPort of) {
    Value& target = value(of);
    const bool first = target.gradient == kNoTensor;
    if (first) target.gradient = tensor(target.spec.bytes());
    use(target.gradient);
    return {target.gradient, !first, target.gradient};
  }

  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }

 private:
  bool training_, learns_;
  int now_ = 0;
  std::vector<Value> values_;          // first outputs; Network::kInput is the first of them
  std::map<LayerPort, Value> others_;  // outputs after the first
  std::vector<Lifetime> lifetimes_;
};

}  // namespace millrace
