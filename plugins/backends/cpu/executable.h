// A network compiled for one number of samples, for training or for inference: its operations in order, their memory plan, and
// what it costs.
//
// Threading: only on the replica's thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "int8/int8_plan.h"
#include "kernels/ingest.h"
#include "millrace/backend/executable_plan.h"
#include "operation.h"

namespace millrace::cpu {

// oneDNN's preferred layout for the convolution with the most work; channels last if there is none.
Layout preferred_layout(const Network& network, const CompileOptions& options, const dnnl::engine& engine);

// The network after this backend's fusion. `outputs`: values that are read outside layers.
std::vector<Node> fused(const Network& network, std::vector<LayerPort> outputs = {});
// The same for a replica that only predicts: with folding.h.
std::vector<Node> fused_to_predict(const Network& network, const std::vector<LayerPort>& outputs = {});

class Executable {
 public:
  using CompileContext = cpu::CompileContext;

  // Plans. Throws Error(usage) for networks that cannot be computed, Error(device) for errors of oneDNN.
  Executable(CompileContext& compile_context, const std::vector<Node>& nodes, std::int64_t samples, bool training);

  std::size_t arena_bytes() const { return plan_.placement().bytes; }
  const ExecutablePlan<Operation>& plan() const { return plan_; }
  // Executables that never run at the same time may share an arena. REQUIRES: arena_bytes() bytes, and the parameters' memory.
  void bind(std::byte* arena);

  // Destination of ingest. The plane describes images with at most 16 channels.
  const dnnl::memory::desc& input_desc() const { return input_desc_; }
  const InputPlane& input() const { return input_; }
  void forward(const Pass& pass);
  // Replaces forward() and backward() on a replica without samples: Operation::meet_forward(), meet_backward().
  void meet_forward();
  void meet_backward();
  // A vector is (samples, channels) float32, a map has the network's form.
  const Map& output() const { return plan_.measured().front().output(); }
  // After inference: a value of CompileRequest::outputs from the last forward. Throws Error(usage) for other values.
  const Map& output(LayerPort value) const { return kept_maps_[plan_.find_kept(value)]; }
  // `done(node)`: the gradients of this node's parameters are complete. Called for every node, last one first.
  void backward(const Pass& pass, const std::function<void(int node)>& done);

  const Map& gradient() const { return gradient_; }  // by CompileContext::by, from the last backward

  std::vector<LayerTime> layer_times() const;

 private:
  struct Cost {
    double forward = 0, backward = 0;  // seconds
  };
  void plan_input(const std::vector<Node>& nodes);

  CompileContext& compile_context_;
  std::int64_t samples_;
  ExecutablePlan<Operation> plan_;
  dnnl::memory::desc input_desc_;
  InputPlane input_;
  std::unique_ptr<Int8Plan> int8_;

  std::vector<Map> kept_maps_;  // parallel to the plan's kept()
  Map gradient_ = {};

  std::vector<Cost> costs_;
  std::uint64_t passes_ = 0;
};

}  // namespace millrace::cpu
