// A network on one GPU, written against Machine and Queue alone.
//
// Three queues: `copy` brings batches in, `compute` runs ingest, forward, loss and backward, `update` the optimizer, behind each
// bucket's mark, so that it runs under the backward of the layers before. The next forward waits for the update. Nothing waits
// on the host but read(), write(), logits() and finish(), and whoever asks an event.
//
// start() ends with a rehearsal: one forward and backward of zeros that changes no running statistic, so that the driver and the
// libraries have loaded their kernels before a run's clock starts.
//
// With CompileOptions::graphs, where the device's recordings hold (shortcuts.h), the passes of a training step are recorded, by
// start() for full batches and at the second step for other counts, and launched from then on: forward, and backward with a mark
// of its own for each bucket. Ingest, loss and update, whose arguments change, stay outside.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "device_meter.h"
#include "executable.h"
#include "losses.h"
#include "millrace/backend/executables.h"
#include "millrace/backend/learning_phases.h"
#include "parameter_store.h"
#include "staging.h"
#include "trace.h"

namespace millrace::cuda {

// Fewer samples than compiled for are computed exactly, not padded: the first step with a new count compiles for it. Errors of
// work on the device are thrown by finish(), read() and write(), and by whatever the driver refuses afterwards.
class GpuReplica final : public Replica, public MeasuresDevice {
 public:
  GpuReplica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options);
  ~GpuReplica() override;

  MemoryPlan memory_plan() const override;
  std::string plans() const override { return machine_->plans(PlanChoice::of(options_)); }
  void start() override;
  const std::vector<Bucket>& buckets() const override { return parameters_.buckets(); }
  void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) override;
  void forward(std::uint64_t step) override;
  Ref<Event> losses(std::span<const LossTerm> terms) override;
  void backward(BucketReady ready) override;
  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) override;
  void keep_gradients() override;
  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) override;
  Ref<Event> swap_with(std::string_view copy) override;
  Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                   const std::shared_ptr<const Loss>& loss, StepSums& sums) override;
  Ref<Event> read_outputs(std::span<const OutputCopy> copies) override;
  std::vector<float> logits() override;
  std::vector<LayerTime> layer_times() override;
  std::vector<std::string> states() const override { return parameters_.states(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const override {
    return parameters_.state_shape(state, parameter);
  }
  std::vector<float> read(std::string_view state, int parameter) override;
  std::unique_ptr<Snapshot> capture(std::span<const StateOf> states) override;
  void write(std::string_view state, int parameter, std::span<const float> values) override;
  void finish() override;
  DeviceTimes device_times() const override { return meter_->times(); }

 private:
  CompileContext& workshop_of(std::size_t phase);
  Executable& executable(const Executables<Executable>::Use& use);
  void rebind(std::size_t arena_bytes);
  void run_ingest(const Executable& to, const StagedBatch& batch, const View& view);
  Ref<Event> measure_result(const std::shared_ptr<const Loss>& loss, StepSums& sums);
  // A recording of what `pass` submits; null, with a warning, when something in it cannot be recorded: it is submitted from then
  // on.
  std::unique_ptr<Recording> record(const std::function<void()>& pass);
  void record_forward(Executable& network);
  void record_backward(Executable& network);
  void pass_backward(Executable& network, const std::function<void(int bucket)>& filled);
  Shortcuts choose_shortcuts();
  std::vector<Node> fuse_for(std::vector<LayerPort> outputs) const;  // read by others than layers
  void allocate();
  void rehearse(Executable& network, bool training);
  std::string memory_advice(const MemoryPlan& plan, std::size_t free) const;  // what is planned, used and free, and what fits
  std::size_t summed_logit_bytes(bool of_maps) const;                         // of vectors always
  Map begin_sum(const Map& output);                                           // of the outputs of several views
  void add_view(const Map& output, const View& view, bool first);
  void refuse_request() const;
  std::string engines() const;  // that compute full batches, by layer
  Ref<Mark> add_kept(int bucket, const Ref<Mark>& filled);
  void wait_for_update();
  void drain();  // all queues

  const std::shared_ptr<Machine> machine_;
  const Network network_;
  const CompileOptions options_;
  ParameterStore parameters_;
  const LearningPhases phases_;
  std::deque<CompileContext> workshops_;   // by phase, as far as they have come; the first is that of inference too
  std::vector<Node> nodes_, infer_nodes_;  // of training; of inference, where outputs are kept apart
  std::vector<int> bucket_node_;           // by bucket: the first node of forward, so the last of backward, that it waits for
  Executables<Executable> executables_;
  std::uint32_t most_samples_ = 0;
  bool graphs_;

  DeviceMemory arena_, table_, scalars_, tickets_, summed_logits_;
  Losses losses_;
  const std::unique_ptr<DeviceMeter> meter_;
  std::unique_ptr<StepTrace> trace_;   // null: nobody asks for one
  std::unique_ptr<StepTrace> layers_;  // with CompileOptions::time_layers: a span for each layer of a pass
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Queue> compute_, update_;
  std::vector<Ref<Mark>> filled_;  // by bucket, of the last backward: its gradients are there, its weights are not read any more
  Ref<Mark> updated_;              // the last work on parameters
  Ref<Mark> added_;                // the last sum with gradients that were kept; null: there was none
  bool adds_ = false;              // the next backward adds to them
  bool update_is_new_ = false;     // compute has not waited for it yet

  // The present pass.
  Executable* current_ = nullptr;  // null: no samples
  StagedBatch staged_;
  std::uint64_t first_sample_ = 0;
  int announced_ = 0;               // buckets that its backward fills
  Map read_;                        // what logits() reads; without data: nothing
  Executable* inferred_ = nullptr;  // what read_outputs() reads; null: nothing
};

std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options);

}  // namespace millrace::cuda
