#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/step_result.h"

namespace millrace {

// Sums each step's loss and counts over the replicas and reports them to the run. The loss defines the counts: accuracy and top5
// in millrace/metrics/accuracy.h, those of pixels in pixel_loss.h.
//
// Port: "in" takes one StepResult from each replica. The sums are read on the thread that signals their completion; nothing waits
// here. They are added in replica order, so that the same run reports identical bits.
class Metrics : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d);
  Metrics(const Params& params, const StageSite& site);

  void process(int port, Packet packet, Output& output) override;
  void stop() noexcept override { open_.clear(); }  // results of a step that was cut short

 private:
  struct Joint;

  const StageSite site_;
  std::map<std::uint64_t, std::shared_ptr<Joint>> open_;  // by step, until every replica's result has arrived
};

}  // namespace millrace
