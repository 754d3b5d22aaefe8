// A network compiled for one number of samples, for training or for inference: its operations in order and their memory plan.
//
// With CompileOptions::recompute a training executable lets go of what only a segment of nodes reads (millrace/segments.h), and
// computes it again when backward comes to the segment: by operations that follow those of forward, have tensors of their own,
// and do the segment's backward. Time of the plan: 0 is ingest, then a step for each forward, one for the loss, one for each step
// of backward_.
//
// Threading: one thread at a time. Nothing here waits for the device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/operation.h"

namespace millrace::cuda {

class Executable {
 public:
  // Plans. Throws Error(usage) for networks that cannot be computed, Error(device) for what a library refuses.
  Executable(Workshop& workshop, const std::vector<Node>& nodes, std::int64_t samples, bool training);

  std::int64_t samples() const { return samples_; }
  std::size_t arena_bytes() const { return placement_.bytes; }
  // Executables that never run at the same time may share an arena. REQUIRES: arena_bytes() bytes, and the parameters' memory.
  void bind(std::byte* arena);

  const Map& input() const { return input_; }  // what ingest writes
  // To be called before work that ingest, forward, loss or backward submit: the arena is this executable's from now on.
  void begin(Queue& queue);
  void forward(Queue& queue);
  void begin_loss(Queue& queue);
  // The last forward's result, and in training where the loss puts its gradient. A vector is float32, a map as it is computed.
  const Map& output() const { return converts_output_ ? rows_map_ : output_; }
  const Map& d_output() const { return converts_output_ ? d_rows_map_ : d_output_; }
  // `done(node)`: the gradients of this node's parameters have been submitted, and nothing later reads its weights. Called for
  // every node, last one first.
  void backward(Queue& queue, const std::function<void(int node)>& done);

  // A line for each operation that libraries compute, forward | gradient of the input | of the weights, or that is computed again.
  std::string describe() const;

  // What recorded passes are, made by the replica and kept with what they run.
  std::unique_ptr<Recording> recorded_forward, recorded_backward;
  std::vector<Ref<Mark>> recorded_buckets;
  int passes = 0;

 private:
  // What backward() does: computes a node's output anew, or the gradients of its inputs and parameters.
  struct Step {
    bool recompute = false;
    int node = 0;
  };

  void plan_values(const std::vector<Node>& nodes);
  void plan_steps(const std::vector<Node>& nodes);
  void plan_backward(const std::vector<Node>& nodes);
  void plan_segment_again(const std::vector<Node>& nodes, int begin, int end);
  void leave_out_what_nobody_needs(int begin, int end, int recomputed, std::size_t end_of_plan);
  void plan_output();
  void plan_gradient_of_output();
  std::size_t row_bytes() const;
  std::vector<ArenaTensor> tensors() const;
  int loss_time() const { return static_cast<int>(operations_.size()) + 1; }
  int last_time() const { return loss_time() + static_cast<int>(backward_.size()); }
  // Who does a node's backward.
  Operation& of_backward(int node) const {
    const auto at = static_cast<std::size_t>(node);
    return again_[at] ? *again_[at] : *operations_[at];
  }
  int last_layer() const { return static_cast<int>(workshop_.network.layers.size()) - 1; }
  template <class Call>
  void at_layer(const Operation& operation, const Call& call) const;

  Workshop& workshop_;
  std::int64_t samples_;
  Planner planner_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<int> segment_ends_;
  std::vector<bool> kept_;                         // by node: its output outlives its segment's forward
  std::vector<std::unique_ptr<Operation>> again_;  // by node: what follows it, in all segments but the last
  std::vector<TensorId> tensors_of_again_;         // by node: the first tensor of its plan
  std::vector<bool> left_out_;                     // by node: it needs no recompute()
  std::unique_ptr<Planner> forward_planner_;  // where forward finds values that have another place in backward; null: nowhere
  std::vector<Step> backward_;
  Placement placement_;
  std::byte* arena_ = nullptr;
  Map input_, output_, d_output_, rows_map_, d_rows_map_;
  // The network's output as float32 rows, when it is a vector in bf16: copies of the value and its gradient.
  TensorId rows_ = kNoTensor, d_rows_ = kNoTensor;
  bool converts_output_ = false;
};

}  // namespace millrace::cuda
