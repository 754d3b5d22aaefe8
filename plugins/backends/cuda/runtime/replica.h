// A network on one GPU, written only against Machine and Queue.
//
// Three queues: `copy` loads batches (staging.h), `compute` runs ingest, forward, loss and backward, `update` the optimizer
// (parameter_queue.h). On the host, only read(), write(), logits() and finish(), and the caller of Event::wait() wait.
//
// start() ends with a rehearsal: one pass over zeros, so that the driver and the libraries have loaded their kernels before a
// run's clock starts.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "batch_input.h"
#include "compiled_network.h"
#include "device_meter.h"
#include "losses.h"
#include "parameter_queue.h"
#include "parameter_store.h"
#include "trace.h"
#include "training_passes.h"
#include "view_sum.h"

namespace millrace::cuda {

// Smaller sample counts are computed exactly, not padded: the first step with a new count compiles for it. Errors of work on the
// device are thrown by finish(), read() and write(), and by any call that the driver refuses afterwards.
class GpuReplica final : public Replica, public MeasuresDevice {
 public:
  GpuReplica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options);
  ~GpuReplica() override;

  MemoryPlan memory_plan() const override;
  std::string plans() const override { return machine_->plans(PlanChoice::of(options_)); }
  void start() override;
  const std::vector<Bucket>& buckets() const override { return parameters_.plan().parameters.buckets(); }
  void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) override;
  void forward(std::uint64_t step) override;
  Ref<Event> losses(std::span<const LossTerm> terms) override;
  void backward(BucketReady ready) override;
  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) override {
    return updates_->update(bucket, step, after);
  }
  void keep_gradients() override { updates_->keep_gradients(); }
  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) override {
    return updates_->lerp_into(copy, decay, write_back);
  }
  Ref<Event> swap_with(std::string_view copy) override { return updates_->swap_with(copy); }
  Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                   const std::shared_ptr<const Loss>& loss, StepSums& sums) override;
  Ref<Event> read_outputs(std::span<const OutputCopy> copies) override;
  std::vector<float> logits() override;
  std::vector<LayerTime> layer_times() override;
  std::vector<std::string> states() const override { return parameters_.plan().states.names(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const override {
    return parameters_.plan().states.shape(state, parameter);
  }
  std::vector<float> read(std::string_view state, int parameter) override;
  std::unique_ptr<Snapshot> capture(std::span<const StateOf> states) override { return updates_->capture(states); }
  void write(std::string_view state, int parameter, std::span<const float> values) override;
  void finish() override;
  DeviceTimes device_times() const override { return meter_->times(); }

 private:
  std::uint32_t most_samples() const { return std::max(options_.train_batch, options_.infer_batch); }
  TargetNeeds target_needs() const { return TargetNeeds::of(network_, options_.request.losses); }
  std::size_t bytes_by_samples() const;  // device memory that grows with the batch: nearly all of it
  void allocate();
  int filled_buckets_of(std::uint64_t epoch) const { return static_cast<int>(filled_buckets(buckets(), epoch)); }
  void forget_pass();  // called at the beginning of the next one
  Ref<Event> measure_result(const std::shared_ptr<const Loss>& loss, StepSums& sums);
  void drain();  // all queues

  const std::shared_ptr<Machine> machine_;
  const Network network_;
  const CompileOptions options_;
  ParameterStore parameters_;
  CompiledNetwork compiled_;
  Losses losses_;
  ViewSum view_sum_;
  const std::unique_ptr<DeviceMeter> meter_;

  // Created by start().
  std::unique_ptr<StepTrace> trace_;  // null: disabled
  std::unique_ptr<Queue> compute_;
  std::optional<TrainingPasses> passes_;
  std::optional<ParameterQueue> updates_;
  std::optional<BatchInput> input_;

  // The current pass.
  Executable* training_ = nullptr;  // the training executable; null without samples
  Executable* inferred_ = nullptr;  // source of read_outputs(); null: none
  Map result_;                      // source of logits(); no data: none
  std::uint64_t first_sample_ = 0;
  int filled_buckets_ = 0;  // buckets that its backward fills
};

std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options);

}  // namespace millrace::cuda
