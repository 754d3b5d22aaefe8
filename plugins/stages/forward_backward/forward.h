#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_trace.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/device_clock.h"
#include "millrace/batch.h"
#include "millrace/loss.h"
#include "millrace/stage.h"

namespace millrace {

// The Predictions that one replica's `forward` sends: a fixed number that circulate. When the last reference is gone, one
// returns, and its strings and memory are reused.
//
// They act as credits: forward keeps a step's token until predictions are free for the next step, so take() never fails or waits.
// Thread-safe.
class PredictionPool : public std::enable_shared_from_this<PredictionPool> {
 public:
  static constexpr std::size_t kCirculating = 3;  // one being computed, one waiting, one being written

  // `values`: of each, without memory. `samples`: initial capacity of each; take() extends it.
  PredictionPool(Device& device, std::vector<Predictions::Values> values, std::uint32_t samples);
  ~PredictionPool();

  // Sets `samples` in use. REQUIRES: the previous call's token was passed to let_go() and is gone.
  Ref<Predictions> take(std::uint32_t samples);
  void let_go(Ref<Payload> token);  // once predictions are free

  // Submits the copy of the values after infer() of these samples, which begin at slot `begin` of the batch. REQUIRES:
  // `predictions` are from this pool and stay until the event is complete.
  static Ref<Event> read(Replica& replica, const Predictions& predictions, const Ref<Batch>& batch, std::uint32_t begin);
  // Maximum size of all of them, in bytes.
  static std::size_t bytes(const std::vector<Predictions::Values>& values, std::uint32_t samples);

 private:
  class Pooled;
  void come_home(Pooled* predictions) noexcept;

  Device& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Pooled>> at_home_;
  Ref<Payload> token_;  // kept while none was free
};

// Inference over a replica's share of a batch, with running statistics: for validation and predictions.
//
// Ports: "in" takes a Batch. "result" sends one StepResult; if unconnected, no loss is computed and images need no labels.
// "predictions" sends one Predictions, with the network's result and the outputs and score gradients that other stages requested;
// if unconnected, nothing is read back. One instance for each replica; shares are those of split().
//
// A fixed number of Predictions circulate (PredictionPool): a slow sink delays the next step but never blocks a worker, and
// memory stays constant.
//
// `test_time` averages the logits of several views of each image: "flip", the image and its mirror image; "flip_translate", with
// mirror(x) the mean of those two: 0.5 mirror(x) + 0.25 mirror(x shifted by (-1, -1)) + 0.25 mirror(x shifted by (1, 1)), borders
// reflected (arXiv 2404.00498, section 3.5). An output map of a mirror image is mirrored back before it is added. Error(usage):
// "flip_translate" with an output map; a stage that requests a layer's output, which differs between views.
class Forward : public Stage {
 public:
  struct Params : LossParams {
    std::string test_time = "none";
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  Forward(const Params& params, const StepContext& context);

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  DeviceWork device_work() const override;
  std::size_t memory_bound() const override;

 private:
  std::uint32_t largest_share() const;
  Ref<Predictions> begin_predictions(const Ref<Batch>& of, const Share& share);

  const StepContext context_;
  const std::shared_ptr<const Loss> loss_;  // null if nothing is measured
  const std::vector<View> views_;
  std::vector<Predictions::Values> values_;  // sent with predictions; empty if none are sent
  std::shared_ptr<PredictionPool> pool_;
  std::uint64_t turn_ = 0;
  StepSums no_sums_;
  DeviceClock clock_;
  DeviceTrace trace_{context_};
};

// The views for a value of `test_time`; their weights sum to 1.
std::vector<View> test_time_views(const std::string& test_time);

}  // namespace millrace
