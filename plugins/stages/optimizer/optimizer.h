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

namespace millrace {

// Updates one replica's parameters, bucket by bucket, as soon as a bucket's gradients are final.
//
// Port: "in" takes GradientBuckets. One instance for each replica. When a step's last bucket has been submitted, and lookahead
// where it is due, the stage lets go of the bucket and with it of the step's token.
//
// `type` names the optimizer, whose own keys stand in the same table; a group may name another one, with its keys. An optimizer
// is given the schedule's rate times the parameter's factor and weight_decay times its factor; all of ours multiply decay by the
// rate, as PyTorch's do. To decay a group at rate factor f by as much per step as the others, give it decay_factor = 1 / f.
// Running statistics are never decayed.
//
// Lookahead (arXiv 1907.08610, with the rising decay of arXiv 2404.00498): after every `every` steps, t of T steps being done,
//   d = decay ^ every * (t / T) ^ power;  slow = d * slow + (1 - d) * w;  w = slow
// and once more with d = 1 after the last step, so that the run ends with the slow weights, if there was a blend before.
//
// ema: after every `every` steps, average = decay * average + (1 - decay) * w, over weights and running statistics; it begins as
// they are then. Validation sees the average, and it is saved.
//
// average: the plain mean of the weights at the end of each epoch, or after every so many steps, from the share `start` of the
// run on (stochastic weight averaging, arXiv 1803.05407): average = n / (n + 1) * average + w / (n + 1) for the n-th such place.
// Running statistics are averaged as weights are. Validation sees the average from its first place on, and it is saved.
//
// scale_with_batch: the rate is multiplied by batch / reference (arXiv 1706.02677), or by the square root of that, which keeps
// the variance of the updates (arXiv 1404.5997).
//
// Reports "learning_rate" once a step, and "momentum" where the schedule cycles it.
class OptimizerStage : public Stage {
 public:
  struct Lookahead {
    std::int64_t every = 0;
    double decay = 0.95;
    double power = 3;
  };
  struct Ema {
    double decay = 0;
    std::int64_t every = 1;
  };
  struct Average {
    double start = 0.75;
    std::int64_t every = 0;  // steps; 0: epochs
  };
  struct ScaleWithBatch {
    double reference = 0;
    std::string scaling = "linear";
  };
  struct Params : OptimizerParams {
    Params() { optimizer = "sgd"; }
    double weight_decay = 0;
    ScheduleParams learning_rate;
    ScaleWithBatch scale_with_batch;
    std::vector<GroupParams> groups;
    Lookahead lookahead;
    Ema ema;
    std::optional<Average> average;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  OptimizerStage(const Params& params, const StepContext& context);

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  DeviceWork device_work() const override;
  std::string save() const override;
  void restore(std::string_view saved) override;

  // How many places `average` has in the first `done` steps.
  static std::uint64_t places_until(std::uint64_t done, const Average& average, const StepContext& context);

 private:
  static void request_optimizers(const Params& params, const StageSite& site, const Groups& groups, OptimizerSpec& update);
  void begin_step(std::uint64_t step);
  void end_step();
  Ref<Event> behind_report(const Ref<Event>& ready);
  void report_wrong(const Ref<Event>& updated, std::uint64_t step, Output& output);
  void look_ahead(std::uint64_t done);
  bool joins_average(std::uint64_t done) const;  // the weights after so many steps
  Replica& replica() const { return *context_.replicas[static_cast<std::size_t>(context_.replica)]; }

  const Params params_;
  const StepContext context_;
  std::optional<Schedule> schedule_;
  std::optional<Groups> groups_;
  UpdateStep step_;
  std::uint64_t averaged_ = 0;        // places that `average` is the mean of
  int updated_ = 0;                   // buckets of this step
  DeviceClock clock_;                 // of updates
  bool started_ = false;              // a step has begun
  std::shared_ptr<std::byte> wrong_;  // where updates say that a gradient is not finite; replica 0's, which is like all others'
  std::optional<Readback> readback_;
  std::unique_ptr<Stream> stream_;  // last: its work is done before what it uses goes
};

}  // namespace millrace
