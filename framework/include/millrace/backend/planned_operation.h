// Base class of every backend's operations: a node and its planned tensors.
//
// Life: plan() in the order of forward; plan_backward() in the reverse order, for nodes in or before which something is trained;
// bind() once memory is allocated. The backend then runs the operation: see executable_plan.h.
//
// If activations are recomputed for backward, a node has two operations. The first computes forward and releases its results. The
// second follows it (follow()): it is planned when backward reaches the node, and implements recompute() and backward().
#pragma once

#include <string>
#include <utility>

#include "millrace/backend/fusion.h"
#include "millrace/backend/memory_planner.h"
#include "millrace/error.h"

namespace millrace {

// Memory of the planned tensors.
struct Binding {
  std::byte* arena = nullptr;
  const Placement& placement;

  template <class T = void>
  T* at(TensorId tensor) const {  // null for kNoTensor
    void* const data = tensor == kNoTensor ? nullptr : arena + placement.offsets[static_cast<std::size_t>(tensor)];
    return static_cast<T*>(data);
  }
};

// Spec: see MemoryPlanner.
template <class Spec>
class PlannedOperation {
 public:
  using Planner = MemoryPlanner<Spec>;

  // `network` outlives the operation.
  PlannedOperation(const Network& network, Node node) : network_(network), node_(std::move(node)) {}
  virtual ~PlannedOperation() = default;

  // Call before plan(): this operation follows `first`, which has been planned. `output_is_kept`: forward's output is still in
  // memory.
  void follow(const PlannedOperation& first, bool output_is_kept) {
    first_ = &first;
    output_is_kept_ = output_is_kept;
  }

  virtual void plan(Planner& planner) = 0;
  virtual void plan_backward(Planner& planner) = 0;
  virtual void bind(const Planner& planner, const Binding& binding) = 0;
  virtual std::string detail() const { return {}; }  // for profiles: implementations chosen by a library

  const Node& node() const { return node_; }
  const Layer& layer() const { return network_.layers[static_cast<std::size_t>(node_.layer)]; }

  // Runs `call` and adds the layer's name to its errors.
  template <class Call>
  void at_layer(const Call& call) const {
    try {
      call();
    } catch (Error& error) {
      throw error.in(place_of(layer()));
    }
  }

 protected:
  LayerPort input() const { return node_.inputs.front(); }
  const PlannedOperation* first() const { return first_; }  // the operation that this one follows, or null
  bool output_is_kept() const { return output_is_kept_; }
  const Shape& output_shape(int port = 0) const {
    return network_.layers[static_cast<std::size_t>(node_.output)].output_of(port);
  }
  bool wants_gradient(const Planner& planner, LayerPort value) const { return planner.value(value).needs_gradient; }

  // Plans an output's tensor. `in_place_of`: a value whose tensor is reused in inference if this operation is its only reader.
  typename Planner::Value& plan_tensor(Planner& planner, const Spec& spec, LayerPort in_place_of = kNoResidual, int port = 0) {
    typename Planner::Value& output = planner.value({node_.output, port});
    output.spec = spec;
    if (output_is_kept_) {
      planner.use(output.tensor);
      return output;
    }
    if (in_place_of != kNoResidual && !planner.training()) {
      const auto& taken = planner.value(in_place_of);
      if (taken.readers == 1 && taken.tensor != kNoTensor && taken.spec.bytes() == spec.bytes()) {
        output.tensor = taken.tensor;
        planner.use(output.tensor);
        return output;
      }
    }
    output.tensor = planner.tensor(spec.bytes());
    return output;
  }

  // Whether this parameter of the layer is trained.
  bool trains(std::size_t parameter) const {
    if (parameter >= layer().parameters.size()) return false;
    const Parameter& known = network_.parameters[static_cast<std::size_t>(layer().parameters[parameter])];
    return known.trainable && !known.statistic;
  }

  const Network& network_;
  const Node node_;

 private:
  const PlannedOperation* first_ = nullptr;
  bool output_is_kept_ = false;
};

}  // namespace millrace
