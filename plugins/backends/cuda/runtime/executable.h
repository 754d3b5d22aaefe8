// A network compiled for one number of samples, for training or for inference: its operations in order and their memory plan.
//
// Threading: one thread at a time. Nothing here waits for the device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layers/operation.h"
#include "millrace/backend/executable_plan.h"

namespace millrace::cuda {

class Executable {
 public:
  using CompileContext = cuda::CompileContext;

  // Plans. Throws Error(usage) for networks that cannot be computed, Error(device) for library errors.
  Executable(CompileContext& compile_context, const std::vector<Node>& nodes, std::int64_t samples, bool training);

  std::int64_t samples() const { return samples_; }
  std::size_t arena_bytes() const { return plan_.placement().bytes; }
  // Executables that never run at the same time may share an arena. REQUIRES: arena_bytes() bytes, and the parameters' memory.
  void bind(std::byte* arena);

  const Map& input() const { return input_; }  // ingest's output
  // Call before submitting ingest, forward, loss or backward: this executable takes over the arena.
  void begin(Queue& queue);
  void forward(Queue& queue);
  void begin_loss(Queue& queue);
  const ExecutablePlan<Operation>& plan() const { return plan_; }
  // A vector is float32, a map keeps its form.
  const Map& output() const { return plan_.measured().front().output(); }
  // After inference: a value of CompileRequest::outputs from the last forward, and room for it as float32 rows (n, C, H, W)
  // without padding, until the next pass.
  struct Kept {
    Map map;
    float* rows = nullptr;
  };
  // Throws Error(usage) for a value that is not kept.
  const Kept& kept(LayerPort value) const { return kept_[plan_.find_kept(value)]; }
  // `done(node)`: the gradients of this node's parameters have been submitted, and nothing later reads its weights. Called for
  // every node, last one first.
  void backward(Queue& queue, const std::function<void(int node)>& done);

  // A line for each library operation, forward | gradient of the input | of the weights, and for each recomputed one.
  std::string describe() const;
  std::vector<LayerTime> layer_times() const { return plan_.layer_times(); }  // without times

  // Names for a layer's spans in CompileContext::layers; the layer's name replaces the queue's.
  static constexpr const char *kForward = "forward", *kBackward = "backward";

  // TrainingPasses records passes, and stores the recordings with their executable. bind() drops them.
  struct Recorded {
    std::unique_ptr<Recording> forward, backward;
    std::vector<Ref<Mark>> filled;  // by bucket: set again by each launch of `backward`
  };
  Recorded recorded;
  int passes = 0;  // training passes so far

 private:
  void plan_input();
  DeviceMeter* meter() const { return compile_context_.rehearsal ? nullptr : compile_context_.layers; }
  std::vector<ArenaTensor> tensors() const;

  CompileContext& compile_context_;
  std::int64_t samples_;
  ExecutablePlan<Operation> plan_;
  std::byte* arena_ = nullptr;
  Map input_;
  std::vector<TensorId> kept_rows_;  // parallel to the plan's kept()
  std::vector<Kept> kept_;           // set by bind()
};

}  // namespace millrace::cuda
