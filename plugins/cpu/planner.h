// What a compiled network keeps in memory and for how long. Operations announce their tensors here, first all of them in the
// order of forward, then all in the order of backward; when all have, place() in memory_plan.h decides who shares with whom.
//
// Time counts operations: 0 is ingest, then one step for each node's forward, one for the loss, one for each node's backward.
#pragma once

#include <string>
#include <vector>

#include "map_spec.h"
#include "memory_plan.h"
#include "millrace/network.h"

namespace millrace::cpu {

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

// An activation that passes from node to node, by the layer that makes it.
struct Value {
  MapSpec spec;
  TensorId tensor = kNoTensor;
  TensorId gradient = kNoTensor;  // given by the first node whose backward contributes to it
  int readers = 0;                // nodes
  bool needs_gradient = false;    // something before it is trained
};

class Planner {
 public:
  Planner(bool training, std::size_t layers) : training_(training), values_(layers + 1) {}

  bool training() const { return training_; }
  Value& value(int layer) { return values_[static_cast<std::size_t>(layer + 1)]; }  // Network::kInput is the first
  const Value& value(int layer) const { return values_[static_cast<std::size_t>(layer + 1)]; }

  void set_time(int time) { now_ = time; }
  int time() const { return now_; }
  TensorId tensor(std::size_t bytes);  // a new one, alive now
  void use(TensorId tensor) { use_at(tensor, now_); }
  void use_at(TensorId tensor, int time);

  // A value's gradient, which the current backward is to write or, where another reader has already, to add to.
  struct Contribution {
    TensorId tensor = kNoTensor;  // where to write
    bool add = false;             // ... and then to add it to `gradient`
    TensorId gradient = kNoTensor;
  };
  Contribution contribute(int layer);
  // The same, when what would be written lies in `tensor` or can be made there, and nobody needs that tensor any more.
  Contribution contribute_in(int layer, TensorId tensor);

  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }

 private:
  bool training_;
  int now_ = 0;
  std::vector<Value> values_;
  std::vector<Lifetime> lifetimes_;
};

}  // namespace millrace::cpu
