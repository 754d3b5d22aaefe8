// One node of a compiled network: its computation, inputs and outputs. An executable plans all its operations, binds them to
// memory (backend/planned_operation.h), then submits them repeatedly: forward(), perhaps recompute(), and backward() submit to a
// queue and never wait.
#pragma once

#include <memory>
#include <string>

#include "map_spec.h"
#include "millrace/backend/planned_operation.h"
#include "runtime/device_meter.h"
#include "runtime/machine.h"
#include "runtime/parameter_store.h"
#include "runtime/shortcuts.h"

namespace millrace::cuda {

// Common inputs for making operations. Outlives them.
struct CompileContext {
  const Network& network;
  CompileOptions options;
  ParameterStore& parameters;
  Machine& machine;
  Shortcuts shortcuts = {};
  const StepScalars* scalars = nullptr;  // device memory; set when operations are bound
  std::size_t ticket_bytes = 0;          // size needed by sums: planned by operations
  std::uint32_t* tickets = nullptr;      // device memory, as `scalars`; all sums of a replica run sequentially
  bool rehearsal = false;                // changes nothing that outlives a pass: keeps running statistics
  DeviceMeter* layers = nullptr;         // receives a span for each layer of a pass; null: disabled

  CompileContext with(const Network& other) const {
    return {other, options, parameters, machine, shortcuts, scalars, ticket_bytes, tickets, false, layers};
  }
  const Layer& layer(int index) const { return network.layers[static_cast<std::size_t>(index)]; }
  DataType type() const { return options.precision == Precision::bf16 ? DataType::bf16 : DataType::f32; }
};

// A map and its memory.
struct Map {
  void* data = nullptr;
  MapSpec spec;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// Destination of an input's gradient; null if it is not needed.
struct GradientTarget {
  Map map;
  bool add = false;  // to the existing values
  explicit operator bool() const { return map.data != nullptr; }
  void finish() const {}  // kernels add
};

class Operation : public PlannedOperation<MapSpec> {
 public:
  using Run = Queue;
  using Map = cuda::Map;
  using GradientTarget = cuda::GradientTarget;

  Operation(CompileContext& compile_context, Node node)
      : PlannedOperation(compile_context.network, std::move(node)), compile_context_(compile_context) {}

  virtual void forward(Queue& queue) = 0;
  // Recomputes forward results that backward needs and that are gone, bit-identical. Changes nothing else: no running statistics.
  virtual void recompute(Queue& queue) {
    if (!output_is_kept()) forward(queue);
  }
  virtual void backward(Queue& queue) = 0;

 protected:
  // Plans an output's tensor in the network's shape; see plan_tensor().
  Value& plan_output(Planner& planner, DataType type, LayerPort in_place_of = kNoResidual, int port = 0) {
    return plan_tensor(planner, MapSpec::of(output_shape(port), planner.value(input()).spec.n, type), in_place_of, port);
  }
  // The gradient of `value`, written by kernels that can add. `free`: a tensor of its size that is no longer needed, used if the
  // gradient has no memory yet; kNoTensor: none.
  static Planner::Contribution contribute(Planner& planner, LayerPort value, TensorId free = kNoTensor) {
    const bool first = planner.value(value).gradient == kNoTensor;
    return first && free != kNoTensor ? planner.contribute_in(value, free) : planner.accumulate(value);
  }
  // The gradient of a parameter of this layer; null if it is not trained.
  float* gradient(std::size_t parameter) const {
    return trains(parameter) ? compile_context_.parameters.gradient(layer().parameters[parameter]) : nullptr;
  }
  float* value(std::size_t parameter) const { return compile_context_.parameters.value(layer().parameters[parameter]); }

  CompileContext& compile_context_;
};

Map map_of(const Planner& planner, const Binding& binding, LayerPort value);
Map gradient_of(const Planner& planner, const Binding& binding, LayerPort value);
GradientTarget target_of(const Planner& planner, const Binding& binding, LayerPort value,
                         const Planner::Contribution& contribution);

// REQUIRES: the node came from fuse().
std::unique_ptr<Operation> make_operation(CompileContext& compile_context, const Node& node);

std::unique_ptr<Operation> make_convolution(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_linear(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_normalisation(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_unary(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_joining(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_portable(CompileContext& compile_context, const Node& node);

}  // namespace millrace::cuda
