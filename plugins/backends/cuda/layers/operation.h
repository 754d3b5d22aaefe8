// One node of a compiled network: what it computes, from where to where. An executable plans all its operations, binds them to
// memory, then submits them again and again.
//
// Life: plan() in the order of forward; plan_backward() in the reverse order, for nodes that something is trained behind or in;
// bind() once memory is there; then forward() and backward(), which submit to a queue and never wait.
//
// Where activations are computed anew for backward a node has two operations: the first does forward, and lets go of what it
// made; the second follows it (follow()), is planned when backward comes to it, and does recompute() and backward().
#pragma once

#include <memory>
#include <string>

#include "map_spec.h"
#include "millrace/fusion.h"
#include "runtime/machine.h"
#include "runtime/parameter_store.h"
#include "runtime/shortcuts.h"

namespace millrace::cuda {

// What operations are made from. Outlives them.
struct Workshop {
  const Network& network;
  CompileOptions options;
  ParameterStore& parameters;
  Machine& machine;
  Shortcuts shortcuts = {};
  const StepScalars* scalars = nullptr;  // device memory; there when operations are bound
  std::size_t ticket_bytes = 0;          // that sums want: planned by operations
  std::uint32_t* tickets = nullptr;      // device memory, as `scalars`; all sums of a replica run one after another
  bool rehearsal = false;                // nothing that outlives a pass is to change: running statistics stay

  const Layer& layer(int index) const { return network.layers[static_cast<std::size_t>(index)]; }
  DataType type() const { return options.precision == Precision::bf16 ? DataType::bf16 : DataType::f32; }
};

// Where the planned tensors ended up.
struct Binding {
  std::byte* arena = nullptr;
  const Placement& placement;

  template <class T = void>
  T* at(TensorId tensor) const {
    return tensor == kNoTensor ? nullptr : reinterpret_cast<T*>(arena + placement.offsets[static_cast<std::size_t>(tensor)]);
  }
};

// A map and where it lies.
struct Map {
  void* data = nullptr;
  MapSpec spec;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// Where an operation writes the gradient of one of its inputs; null when nobody wants it.
struct GradientTarget {
  Map map;
  bool add = false;  // to what is there
  explicit operator bool() const { return map.data != nullptr; }
};

class Operation {
 public:
  Operation(Workshop& workshop, Node node) : workshop_(workshop), node_(std::move(node)) {}
  virtual ~Operation() = default;

  // Before plan(): this operation follows `first`, which has been planned. `output_is_kept`: what forward made is still there.
  void follow(const Operation& first, bool output_is_kept) {
    first_ = &first;
    output_is_kept_ = output_is_kept;
  }

  virtual void plan(Planner& planner) = 0;
  virtual void plan_backward(Planner& planner) = 0;
  virtual void bind(const Planner& planner, const Binding& binding) = 0;
  virtual void forward(Queue& queue) = 0;
  // What backward needs of forward's results and is not there any more, to the bit as forward made it. Nothing else is touched:
  // no running statistic moves.
  virtual void recompute(Queue& queue) {
    if (!output_is_kept_) forward(queue);
  }
  virtual void backward(Queue& queue) = 0;
  virtual std::string detail() const { return {}; }  // which engines the libraries chose

  const Node& node() const { return node_; }
  const Layer& layer() const { return workshop_.layer(node_.layer); }

 protected:
  int input() const { return node_.inputs.front(); }
  const Operation* first() const { return first_; }  // whom this one follows; null: nobody
  bool output_is_kept() const { return output_is_kept_; }
  // The output as the network says.
  MapSpec output_spec(const Planner& planner, DataType type) const;
  // Plans the output's tensor. `in_place_of`: a value whose tensor may be taken over, when this is inference and nobody else
  // reads it.
  Value& plan_output(Planner& planner, const MapSpec& spec, int in_place_of = kNoResidual);
  // The gradient of `layer`, written by kernels that can add. `free`: a tensor of its size that nobody needs any more, to be used
  // where the gradient has no place yet; kNoTensor: none.
  static Planner::Contribution contribute(Planner& planner, int layer, TensorId free = kNoTensor);
  bool wants_gradient(const Planner& planner, int layer) const { return planner.value(layer).needs_gradient; }
  bool trains(std::size_t parameter) const;
  float* gradient(std::size_t parameter) const;  // of a parameter of this layer; null when it is not trained
  float* value(std::size_t parameter) const { return workshop_.parameters.value(layer().parameters[parameter]); }

  Workshop& workshop_;
  Node node_;

 private:
  const Operation* first_ = nullptr;
  bool output_is_kept_ = false;
};

Map map_of(const Planner& planner, const Binding& binding, int layer);
Map gradient_of(const Planner& planner, const Binding& binding, int layer);
GradientTarget target_of(const Planner& planner, const Binding& binding, int layer, const Planner::Contribution& contribution);

// REQUIRES: the node came from fuse().
std::unique_ptr<Operation> make_operation(Workshop& workshop, const Node& node);

std::unique_ptr<Operation> make_convolution(Workshop& workshop, const Node& node);
std::unique_ptr<Operation> make_linear(Workshop& workshop, const Node& node);
std::unique_ptr<Operation> make_normalisation(Workshop& workshop, const Node& node);
std::unique_ptr<Operation> make_pooling(Workshop& workshop, const Node& node);
std::unique_ptr<Operation> make_unary(Workshop& workshop, const Node& node);
std::unique_ptr<Operation> make_joining(Workshop& workshop, const Node& node);
std::unique_ptr<Operation> make_portable(Workshop& workshop, const Node& node);

}  // namespace millrace::cuda
