#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device_trace.h"
#include "millrace/backend/device_clock.h"
#include "millrace/batch.h"
#include "millrace/loss.h"
#include "millrace/stage.h"
#include "prediction_pool.h"

namespace millrace {

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
