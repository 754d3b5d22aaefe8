// One node of a compiled network: what it computes, from where to where. An executable plans all its operations, binds them to
// memory, then runs them again and again.
//
// Life: plan() in the order of forward; plan_backward() in the reverse order, for nodes that something is trained behind or in;
// bind() once memory is there; then forward() and backward(), all on the replica's thread.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "kernels/kernels.h"
#include "millrace/fusion.h"
#include "parameter_store.h"
#include "planner.h"

namespace millrace::cpu {

// What operations are made from. Outlives them.
struct Workshop {
  const Network& network;
  CompileOptions options;
  Layout layout = Layout::channels_last;  // of maps
  ParameterStore& parameters;
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::memory::desc input_desc{};  // of the network's input; its only reader chooses it when that is a convolution
  int reorders = 0;                 // of activations, over all operations planned so far

  const Layer& layer(int index) const { return network.layers[static_cast<std::size_t>(index)]; }
  DataType type() const { return options.precision == Precision::bf16 ? DataType::bf16 : DataType::f32; }
};

// Where the planned tensors ended up.
struct Binding {
  std::byte* arena = nullptr;
  const Placement& placement;

  void* at(TensorId tensor) const {
    return tensor == kNoTensor ? nullptr : arena + placement.offsets[static_cast<std::size_t>(tensor)];
  }
  template <class T>
  T* as(TensorId tensor) const {
    return static_cast<T*>(at(tensor));
  }
};

// What one pass depends on besides tensors.
struct Pass {
  std::uint64_t step = 0;          // of training
  std::uint64_t first_sample = 0;  // this replica's first place in the global batch
};

class Operation {
 public:
  Operation(Workshop& workshop, Node node) : workshop_(workshop), node_(std::move(node)) {}
  virtual ~Operation() = default;

  virtual void plan(Planner& planner) = 0;
  virtual void plan_backward(Planner& planner) = 0;
  virtual void bind(const Planner& planner, const Binding& binding) = 0;
  virtual void forward(const Pass& pass) = 0;
  virtual void backward(const Pass& pass) = 0;
  virtual std::string detail() const { return {}; }  // for profiles: which implementations oneDNN chose

  const Node& node() const { return node_; }
  const Layer& layer() const { return workshop_.layer(node_.layer); }

 protected:
  int input() const { return node_.inputs.front(); }
  // Plans the output's tensor, in the shape that the network says. `in_place_of`: a value whose tensor may be taken over, when
  // this is inference and nobody else reads it.
  Value& plan_output(Planner& planner, DataType type, int in_place_of = kNoResidual);
  // The gradient of a parameter of this layer, or null when it is not trained.
  float* gradient(std::size_t parameter) const;
  float* value(std::size_t parameter) const { return workshop_.parameters.value(layer().parameters[parameter]); }
  bool trains(std::size_t parameter) const;

  Workshop& workshop_;
  Node node_;
};

// A value and its gradient as maps; null data where there is none.
Map map_of(const Planner& planner, const Binding& binding, int layer);
Map gradient_of(const Planner& planner, const Binding& binding, int layer);

// The result of Planner::contribute(), bound.
struct GradientTarget {
  Map written, total;
  bool add = false;

  void bind(const Planner& planner, const Binding& binding, int layer, const Planner::Contribution& contribution);
  explicit operator bool() const { return written.data != nullptr; }
  void finish() const;  // after `written` has been written
};

// REQUIRES: the node came from fuse().
std::unique_ptr<Operation> make_operation(Workshop& workshop, const Node& node);

}  // namespace millrace::cpu
