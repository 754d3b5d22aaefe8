// Plans the memory of a compiled network: the lifetimes of its tensors, and which of them share memory. Pure: for every backend.
//
// Operations announce their tensors to a planner, first all in the order of forward, then all in the order of backward. Then
// place() assigns memory. Time counts operations: 0 is ingest, then one step for each operation's forward, one for the loss, one
// for each operation's backward.
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

// A tensor that is needed in the steps first ... last, inclusive.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<std::size_t> offsets;  // by tensor; multiples of the alignment
  std::size_t bytes = 0;             // size of the arena
};

// Places tensors so that those with overlapping lifetimes do not overlap in memory: largest first, each into the smallest gap
// that holds it ("greedy by size", Pisarchyk and Lee 2020, arXiv 2001.03288). Depends on its arguments alone.
Placement place(std::span<const Lifetime> tensors, std::size_t alignment);

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

// Spec: a backend's description of a tensor's shape, type and layout, with `std::size_t bytes() const`.
template <class Spec>
class MemoryPlanner {
 public:
  // An activation passed between operations.
  struct Value {
    Spec spec;
    TensorId tensor = kNoTensor;
    TensorId gradient = kNoTensor;  // given by the first operation whose backward contributes to it
    int readers = 0;                // operations
    bool needs_gradient = false;    // something before it is trained
  };

  // `learns`: see learns(); ignored without training.
  MemoryPlanner(bool training, std::size_t layers, bool learns = true)
      : training_(training), learns_(training && learns), values_(layers + 1) {}

  bool training() const { return training_; }  // backward follows forward, so its inputs are kept
  // Whether batch statistics and dropout are active: false for inference and for gradients of scores (ScoreGradient).
  bool learns() const { return learns_; }
  Value& value(LayerPort of) { return of.port == 0 ? values_[static_cast<std::size_t>(of.layer + 1)] : others_[of]; }
  const Value& value(LayerPort of) const {
    return of.port == 0 ? values_[static_cast<std::size_t>(of.layer + 1)] : others_.at(of);
  }

  void set_time(int time) { now_ = time; }
  int time() const { return now_; }
  TensorId tensor(std::size_t bytes) {  // new, and used now
    lifetimes_.push_back({bytes, now_, now_});
    return static_cast<TensorId>(lifetimes_.size()) - 1;
  }
  void use(TensorId tensor) { use_at(tensor, now_); }
  void use_at(TensorId tensor, int time) {
    Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(tensor)];
    lifetime.first = std::min(lifetime.first, time);
    lifetime.last = std::max(lifetime.last, time);
  }

  // A value's gradient that the current backward writes, or adds to if another reader has already written it.
  struct Contribution {
    TensorId tensor = kNoTensor;  // destination
    bool add = false;             // then add it to `gradient`
    TensorId gradient = kNoTensor;
  };
  Contribution contribute(LayerPort of) { return contribute_in(of, tensor(value(of).spec.bytes())); }
  // Contributes a result that lies in `tensor`, or can be computed there, when that tensor is no longer needed.
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
  // Contributes for an operation that can add in place: it needs only the gradient.
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
  std::vector<Value> values_;          // first outputs; Network::kInput comes first
  std::map<LayerPort, Value> others_;  // outputs after the first
  std::vector<Lifetime> lifetimes_;
};

}  // namespace millrace
