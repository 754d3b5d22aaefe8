// A network on the CPU: one thread runs everything, with its own OpenMP team on fixed processors.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compiled_network.h"
#include "losses.h"
#include "millrace/backend/device_times.h"
#include "parameter_store.h"
#include "view_sum.h"
#include "work_meter.h"
#include "work_queue.h"

namespace millrace::cpu {

// Every call except memory_plan() and buckets() becomes a closure in the queue of the replica's thread. An error of that work is
// thrown by finish() and by the next ingest(), infer(), read() or write(); until then later steps are skipped, their events
// complete and their buckets are announced, so that no thread hangs. The error is permanent: a failed replica is not reused.
//
// Smaller sample counts are computed exactly, not padded: the first step with a new count compiles for it.
class CpuReplica final : public Replica, public MeasuresDevice {
 public:
  CpuReplica(const Network& network, const CompileOptions& options, const DeviceOptions& device,
             const PrimitiveChecks& checks = {});
  ~CpuReplica() override;

  MemoryPlan memory_plan() const override;
  void start() override;
  const std::vector<Bucket>& buckets() const override { return parameters_.plan().parameters.buckets(); }
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
  Ref<Event> read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                            std::span<const GradientCopy> copies) override;
  std::vector<float> logits() override;
  std::vector<LayerTime> layer_times() override;
  std::vector<std::string> states() const override { return parameters_.plan().states.names(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const override {
    return parameters_.plan().states.shape(state, parameter);
  }
  std::vector<float> read(std::string_view state, int parameter) override;
  void write(std::string_view state, int parameter, std::span<const float> values) override;
  void finish() override;
  DeviceTimes device_times() const override { return meter_.times(); }

 private:
  // After all earlier work. `always`: see WorkQueue.
  Ref<Event> submit(Work kind, std::function<void()> work, std::function<void()> always = {});
  // Wraps `work` to notify the other replicas on failure: they would wait for this one in the middle of a pass.
  std::function<void()> or_give_up(std::function<void()> work) const;
  void take_inputs(const Batch& batch, std::uint32_t begin, std::uint32_t count);
  void run_ingest(const Batch& batch, std::uint32_t begin, std::uint32_t count, const View* view, Executable& to);
  void run_forward(std::uint64_t step);
  void run_losses(const std::vector<LossTerm>& terms);
  struct Announcement {
    BucketReady ready;
    int buckets = 0;  // number of first buckets
    int next = 0;
  };
  void run_backward(Announcement& to);
  // The buckets that wait for nothing before this node. `failure`: of the work that fills them.
  void announce(Announcement& to, int node, const Error* failure = nullptr);
  // Runs the views; the output, their weighted sum where there are several.
  Map run_infer(const Batch& batch, std::uint32_t begin, std::uint32_t count, const std::vector<View>& views);
  void run_gradient(const Batch& batch, std::uint32_t begin, std::uint32_t count, const GradientCopy& copy);

  const Network network_;
  const CompileOptions options_;
  const PixelTable table_;
  ParameterStore parameters_;
  CompiledNetwork compiled_;

  std::uint64_t submitted_epoch_ = 0;  // set by the last ingest(); used by the caller's thread

  // State of the current pass; used only by the replica's thread.
  Executable* training_ = nullptr;  // the training executable; null without samples
  Pass pass_;
  std::uint64_t epoch_ = 0;  // the batch's
  int updates_left_ = 0;     // in the step, after its backward
  bool adds_ = false;        // backward adds to the kept gradients
  std::int64_t rows_ = 0;
  LossInputs inputs_;
  Losses losses_;
  Executable* read_ = nullptr;  // source of logits(); null if none
  ViewSum view_sum_;            // exists after an inference with several views

  WorkMeter meter_;                 // meter of the replica's thread
  WorkQueue queue_{"cpu replica"};  // last: its thread must end before the members it uses
};

}  // namespace millrace::cpu
