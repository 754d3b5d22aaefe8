// One node of a compiled network: its computation, inputs and outputs. An executable plans all its operations, binds them to
// memory (backend/planned_operation.h), then runs them repeatedly: forward(), perhaps recompute(), and backward(), all on the
// replica's thread.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>

#include "kernels/kernels.h"
#include "map_spec.h"
#include "millrace/backend/planned_operation.h"
#include "parameter_store.h"
#include "primitive_checks.h"

namespace millrace::cpu {

class Int8Plan;

// Common inputs for making operations. Outlives them.
struct CompileContext {
  const Network& network;
  CompileOptions options;
  Layout layout = Layout::channels_last;  // for maps
  ParameterStore& parameters;
  dnnl::engine engine;
  dnnl::stream stream;
  PrimitiveChecks checks = {};  // default-constructed: nothing is checked
  // Executables end with a backward to the gradient by this value. REQUIRES: a network without trained parameters.
  std::optional<LayerPort> by = {};
  dnnl::memory::desc input_desc{};  // the network's input; its only reader chooses it if that is a convolution
  Int8Plan* int8 = nullptr;         // of the executable that is being made; null if that trains

  CompileContext with(const Network& other) const { return {other, options, layout, parameters, engine, stream, checks, by}; }
  // True if the weights are constants that may be folded (folding.h).
  bool predicts() const {
    return options.request.may_fold && options.train_batch == 0 && options.largest_train_batch == 0 && !by;
  }
  const Layer& layer(int index) const { return network.layers[static_cast<std::size_t>(index)]; }
  DataType type() const { return options.precision == Precision::bf16 ? DataType::bf16 : DataType::f32; }
};

// Destination of an input's gradient; null if it is not needed.
struct GradientTarget {
  Map written, total;
  bool add = false;  // adds the written values to the total

  explicit operator bool() const { return written.data != nullptr; }
  void finish() const;  // call after writing `written`
};

// Inputs of a pass other than tensors.
struct Pass {
  std::uint64_t step = 0;          // training step
  std::uint64_t first_sample = 0;  // this replica's first place in the global batch
};

class Operation : public PlannedOperation<MapSpec> {
 public:
  using Run = const Pass;
  using Map = cpu::Map;
  using GradientTarget = cpu::GradientTarget;

  Operation(CompileContext& compile_context, Node node)
      : PlannedOperation(compile_context.network, std::move(node)), compile_context_(compile_context) {}

  virtual void forward(const Pass& pass) = 0;
  // Recomputes forward results that backward needs and that are gone, bit-identical. Changes nothing else: no running statistics.
  virtual void recompute(const Pass& pass) {
    if (!output_is_kept()) forward(pass);
  }
  virtual void backward(const Pass& pass) = 0;
  // Replace forward() and backward() on a replica without samples in this step, where replicas meet in the middle of a pass.
  virtual void meet_forward() {}
  virtual void meet_backward() {}

  // Runs a call; errors, including oneDNN's, name the layer.
  template <class Call>
  void at_layer(const Call& call) const {
    PlannedOperation::at_layer([&] { as_error(call); });
  }

 protected:
  // Plans an output's tensor in the network's shape; see plan_tensor().
  Value& plan_output(Planner& planner, DataType type, LayerPort in_place_of = kNoResidual, int port = 0) {
    const MapSpec spec = MapSpec::of(output_shape(port), planner.value(input()).spec.n, type, compile_context_.layout);
    return plan_tensor(planner, spec, in_place_of, port);
  }
  // The gradient of `value`, written separately if one exists already, and added by GradientTarget::finish(). `free`: a tensor of
  // its size that it may take over; kNoTensor: none.
  static Planner::Contribution contribute(Planner& planner, LayerPort value, TensorId free = kNoTensor) {
    return free == kNoTensor ? planner.contribute(value) : planner.contribute_in(value, free);
  }
  // The gradient of a parameter of this layer; null if it is not trained.
  float* gradient(std::size_t parameter) const {
    return trains(parameter) ? compile_context_.parameters.gradient(layer().parameters[parameter]) : nullptr;
  }
  // The shape of a parameter of this layer in the network.
  const Shape& parameter_shape(std::size_t parameter) const {
    return compile_context_.network.parameters[static_cast<std::size_t>(layer().parameters[parameter])].shape;
  }
  float* value(std::size_t parameter) const { return compile_context_.parameters.value(layer().parameters[parameter]); }

  CompileContext& compile_context_;

 private:
  template <class Call>
  static void as_error(const Call& call) {
    try {
      call();
    } catch (const dnnl::error& error) {
      fail(ErrorKind::device, "oneDNN: {}", error.what());
    }
  }
};

// A value and its gradient as maps; null data if there is none.
Map map_of(const Planner& planner, const Binding& binding, LayerPort value);
Map gradient_of(const Planner& planner, const Binding& binding, LayerPort value);
// The result of Planner::contribute(), bound.
GradientTarget target_of(const Planner& planner, const Binding& binding, LayerPort value,
                         const Planner::Contribution& contribution);

// REQUIRES: the node came from fuse().
std::unique_ptr<Operation> make_operation(CompileContext& compile_context, const Node& node);

std::unique_ptr<Operation> make_normalisation(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_unary(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_joining(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_portable(CompileContext& compile_context, const Node& node);
// For networks in int8: rounding, nodes from with_integers() that are convolutions or linear layers, and their other nodes.
std::unique_ptr<Operation> make_quantise(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_int8_window(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_of_integers(CompileContext& compile_context, const Node& node);

inline PoolWindow pool_window(const PoolAttributes& pool) {
  return {pool.kernel.height, pool.kernel.width, pool.stride.height, pool.stride.width,
          pool.padding.top,   pool.padding.left, pool.count_padding};
}

// Bytes of max pooling's index for an output of this shape: 16 channels to a block.
inline std::size_t index_bytes(const MapSpec& output, const PoolWindow& window) {
  const std::int64_t blocks = (output.channels + Map::kLanes - 1) / Map::kLanes;
  return static_cast<std::size_t>(output.n * blocks * output.height * output.width * Map::kLanes) *
         (has_wide_index(window) ? sizeof(std::int32_t) : sizeof(std::uint8_t));
}

}  // namespace millrace::cpu
