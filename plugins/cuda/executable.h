// A network compiled for one number of samples, for training or for inference: its operations in order and their memory plan.
//
// Threading: one thread at a time. Nothing here waits for the device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operation.h"

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
  // The last forward's result, (samples, pitch_of(classes)) float32, and in training where the loss puts its gradient.
  void begin_loss(Queue& queue);
  const float* logits() const { return logits_; }
  float* d_logits() const { return d_logits_; }
  std::int64_t classes() const { return classes_; }
  // `done(node)`: the gradients of this node's parameters have been submitted, and nothing later reads its weights. Called for
  // every node, last one first.
  void backward(Queue& queue, const std::function<void(int node)>& done);

  std::string describe() const;  // a line for each operation: what the libraries chose

  // What recorded passes are, made by the replica and kept with what they run.
  std::unique_ptr<Recording> recorded_forward, recorded_backward;
  std::vector<Ref<Mark>> recorded_buckets;
  int passes = 0;

 private:
  void plan_values(const std::vector<Node>& nodes);
  void plan_logits();
  void plan_gradient_of_logits();
  std::vector<ArenaTensor> tensors() const;
  int last_time() const { return 2 * static_cast<int>(operations_.size()) + 1; }
  int last_layer() const { return static_cast<int>(workshop_.network.layers.size()) - 1; }
  template <class Call>
  void at_layer(const Operation& operation, const Call& call) const;

  Workshop& workshop_;
  std::int64_t samples_;
  std::int64_t classes_ = 0;
  Planner planner_;
  std::vector<std::unique_ptr<Operation>> operations_;
  Placement placement_;
  std::byte* arena_ = nullptr;
  Map input_, output_, d_output_;
  // The network's output as float32 rows, when it is made in bf16: copies of the value and its gradient.
  TensorId rows_ = kNoTensor, d_rows_ = kNoTensor;
  bool converts_output_ = false;
  float *logits_ = nullptr, *d_logits_ = nullptr;
};

}  // namespace millrace::cuda
