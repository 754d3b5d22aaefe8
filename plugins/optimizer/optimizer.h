#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "groups.h"
#include "millrace/schedule.h"
#include "millrace/stage.h"
#include "millrace/step.h"

namespace millrace {

// Updates one replica's parameters, bucket by bucket, as soon as a bucket's gradients are final.
//
// Port: "in" takes GradientBuckets. One instance for each replica. When a step's last bucket has been submitted, and lookahead
// where it is due, the stage lets go of the bucket and with it of the step's token.
//
// Rule "sgd", with rate the schedule's rate times the parameter's factor, decay weight_decay times its factor:
//   g = gradient + decay * w;  v = momentum * v + g;  w = w - rate * (nesterov ? g + momentum * v : v)
// as in PyTorch's SGD: decay is multiplied by the rate. To decay a group at rate factor f by as much per step as the others,
// give it decay_factor = 1 / f. Running statistics are never decayed.
//
// Lookahead (arXiv 1907.08610, with the rising decay of arXiv 2404.00498): after every `every` steps, t of T steps being done,
//   d = decay ^ every * (t / T) ^ power;  slow = d * slow + (1 - d) * w;  w = slow
// and once more with d = 1 after the last step, so that the run ends with the slow weights.
//
// Reports "learning_rate" once a step.
class Optimizer : public Stage {
 public:
  struct Lookahead {
    std::int64_t every = 0;
    double decay = 0.95;
    double power = 3;
  };
  struct ScaleWithBatch {
    double reference = 0;
  };
  struct Params {
    std::string rule = "sgd";
    double momentum = 0;
    bool nesterov = false;
    double weight_decay = 0;
    ScheduleParams learning_rate;
    ScaleWithBatch scale_with_batch;
    std::vector<GroupParams> groups;
    Lookahead lookahead;
  };
  static void describe(StageDescription<Params>& d);
  Optimizer(const Params& params, const StageContext& context);

  void open() override;
  void process(int port, Packet packet, Output& output) override;

 private:
  void begin_step(std::uint64_t step);
  void end_step();
  Replica& replica() const { return *context_.replicas[static_cast<std::size_t>(context_.replica)]; }

  const Params params_;
  const StageContext context_;
  std::optional<Schedule> schedule_;
  std::optional<Groups> groups_;
  UpdateStep step_;
  int updated_ = 0;       // buckets of this step
  bool started_ = false;  // a step has begun
};

}  // namespace millrace
