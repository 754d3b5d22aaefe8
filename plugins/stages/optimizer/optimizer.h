#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "groups.h"
#include "millrace/backend/device_clock.h"
#include "millrace/backend/readback.h"
#include "millrace/batch.h"
#include "millrace/optimizer.h"
#include "millrace/stage.h"
#include "millrace/util/schedule.h"
#include "moving_averages.h"

namespace millrace {

// Updates one replica's parameters, bucket by bucket, as soon as a bucket's gradients are final.
//
// Port: "in" takes GradientBuckets. One instance for each replica. When a step's last bucket has been submitted, and lookahead
// where it is due, the stage releases the bucket and with it the step's token.
//
// `type` names the optimizer, whose own keys are in the same table; a group may name another one, with its keys. An optimizer
// receives the schedule's rate times the parameter's factor and weight_decay times its factor; ours all multiply decay by the
// rate, like PyTorch's. To decay a group at rate factor f by as much per step as the others, give it decay_factor = 1 / f.
// Running statistics are never decayed.
//
// lookahead, ema, average: see moving_averages.h.
//
// scale_with_batch: the rate is multiplied by batch / reference (arXiv 1706.02677), or by the square root of that, which keeps
// the variance of the updates (arXiv 1404.5997).
//
// Reports "learning_rate" once a step, and "momentum" if the schedule cycles it.
class OptimizerStage : public Stage {
 public:
  struct ScaleWithBatch {
    double reference = 0;
    std::string scaling = "linear";
  };
  struct Params : OptimizerParams, AverageParams {
    Params() { optimizer = "sgd"; }
    double weight_decay = 0;
    ScheduleParams learning_rate;
    ScaleWithBatch scale_with_batch;
    std::vector<GroupParams> groups;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  OptimizerStage(const Params& params, const StepContext& context);

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  DeviceWork device_work() const override;
  std::string save() const override;
  void restore(std::string_view saved) override;

 private:
  static void request_optimizers(const Params& params, const StageSite& site, const Groups& groups, OptimizerSpec& update);
  void begin_step(std::uint64_t step);
  void end_step();
  Ref<Event> behind_report(const Ref<Event>& ready);
  void report_wrong(const Ref<Event>& updated, std::uint64_t step, Output& output);
  Replica& replica() const { return *context_.replicas[static_cast<std::size_t>(context_.replica)]; }

  const Params params_;
  const StepContext context_;
  std::optional<Schedule> schedule_;
  std::optional<Groups> groups_;
  MovingAverages averages_;
  UpdateStep step_;
  int updated_ = 0;                   // buckets in this step
  DeviceClock clock_;                 // times updates
  bool started_ = false;              // a step has begun
  std::shared_ptr<std::byte> wrong_;  // set by updates if a gradient is not finite; replica 0's, which equals all others
  std::optional<Readback> readback_;
  std::unique_ptr<Stream> stream_;  // last: its work must end before the buffers are freed
};

}  // namespace millrace
