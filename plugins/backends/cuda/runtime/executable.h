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
  // The values that losses use: the last forward's result and, in training, values of CompileRequest::losses, with the place for
  // the loss's gradient. A vector is float32, a map keeps its form.
  struct Measured {
    LayerPort value;
    bool converted = false;  // to float32 rows: a bf16 vector
    Map made = {}, d_made = {}, rows = {}, d_rows = {};

    const Map& output() const { return converted ? rows : made; }
    const Map& d_output() const { return converted ? d_rows : d_made; }
  };
  std::span<const Measured> measured() const { return measured_; }  // the result first
  std::size_t find_measured(LayerPort value) const { return plan_.find_measured(value); }
  const Map& output() const { return measured_.front().output(); }
  // After inference: a value of CompileRequest::outputs from the last forward, and room for it as float32 rows (n, C, H, W)
  // without padding, until the next pass.
  struct Kept {
    LayerPort value;
    Map map;
    float* rows = nullptr;
  };
  // Throws Error(usage) for a value that is not kept.
  const Kept& kept(LayerPort value) const;
  // `done(node)`: the gradients of this node's parameters have been submitted, and nothing later reads its weights. Called for
  // every node, last one first.
  void backward(Queue& queue, const std::function<void(int node)>& done);

  // A line for each library operation, forward | gradient of the input | of the weights, and for each recomputed one.
  std::string describe() const;
  std::vector<LayerTime> layer_times() const { return plan_.layer_times(); }  // without times

  // Names for a layer's spans in CompileContext::layers; the layer's name replaces the queue's.
  static constexpr const char *kForward = "forward", *kBackward = "backward";

  // TrainingPasses records passes, and stores the recordings with their executable.
  struct Recorded {
    std::unique_ptr<Recording> forward, backward;
    std::vector<Ref<Mark>> filled;  // by bucket: set again by each launch of `backward`
  };
  Recorded recorded;
  int passes = 0;  // training passes so far

 private:
  void plan_input();
  StepTrace* trace() const { return compile_context_.rehearsal ? nullptr : compile_context_.layers; }
  std::size_t copied_bytes(LayerPort value);
  void bind_measured(const Binding& binding);
  void plan_kept_rows();
  std::vector<ArenaTensor> tensors() const;

  CompileContext& compile_context_;
  std::int64_t samples_;
  ExecutablePlan<Operation> plan_;
  std::byte* arena_ = nullptr;
  Map input_;
  std::vector<Measured> measured_;
  std::vector<Kept> kept_;
  std::vector<TensorId> kept_rows_;
};

}  // namespace millrace::cuda
