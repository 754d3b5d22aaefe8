#pragma once

#include <vector>

#include "device_trace.h"
#include "millrace/backend/device_clock.h"
#include "millrace/batch.h"
#include "millrace/loss.h"
#include "millrace/stage.h"

namespace millrace {

// One replica's half of a training step: its share of the batch through the network and back.
//
// Ports: "in" takes a Batch; "result" sends one StepResult as soon as the loss is submitted; "gradients" sends a GradientBucket
// for each of the replica's buckets as backward fills it, last layers first; buckets that no longer learn are omitted
// (Bucket::until_epoch). One instance for each replica.
//
// The shares of a batch are those of split(), over the replicas of all processes. A replica's gradient is the sum over its places
// of weight * d loss / divisor, where the divisor is the whole batch's weight (Packet::weights) for reduction "mean" and 1 for
// "sum": so the sum over replicas is the gradient of the whole batch. A replica with an empty share takes part with a gradient of
// zero.
//
// With `auxiliary`, further losses, at the network's result or other outputs, are added: the weighted sum of all losses is
// minimised, each with its own divisor.
//
// With `micro_batches` a share passes through the network in this many pieces, and their gradients are summed before they are
// sent.
//
// Buckets carry the step's token; the stage releases it with the last one, so that the next forward is submitted after the last
// update. The batch is released once ingest is submitted; the replica holds it while reading.
//
// Threading: process() submits and returns; buckets may be sent from a backend thread.
class ForwardBackward : public Stage {
 public:
  struct Params : LossParams {
    std::vector<AuxiliaryLoss> auxiliary;
    std::int64_t micro_batches = 1;
    bool sync_batch_norm = false;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  ForwardBackward(const Params& params, const StepContext& context);

  void process(int port, Packet packet, Output& output) override;
  std::vector<double> weigh(const Batch& batch) const override;  // by loss
  DeviceWork device_work() const override;                       // until the last bucket is filled

 private:
  struct Work {
    std::uint64_t begin = 0, samples = 0;
    std::uint64_t step = 0, epoch = 0;
  };
  const Shape& output_of(const StageLoss& loss) const;
  std::int64_t places_of(const StageLoss& loss) const;
  std::vector<LossTerm> terms_of(std::span<const double> weights) const;  // without sums
  Ref<Event> accumulate(const Ref<Batch>& batch, const Share& share, std::vector<LossTerm> terms, StepResult& result);
  void backward(Ref<StepToken> token, const Work& work, Output& output);

  const std::vector<StageLoss> losses_;  // the main one first
  const std::uint32_t micro_batches_;
  const StepContext context_;
  DeviceClock clock_;
  DeviceTrace trace_{context_};
};

}  // namespace millrace
