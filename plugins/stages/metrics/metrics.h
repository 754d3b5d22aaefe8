#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/step_result.h"

namespace millrace {

// Adds up each step's loss and counts over the replicas and reports them to the run. What is counted the loss says: accuracy and
// top5 are in millrace/metrics/accuracy.h, those of pixels in pixel_loss.h.
//
// Port: "in" takes one StepResult from each replica. The sums are read when the device has written them, on the thread that
// says so; nothing waits for it here. Added in replica order, so that the same run reports the same bits.
class Metrics : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d);
  Metrics(const Params& params, const StageSite& site);

  void process(int port, Packet packet, Output& output) override;
  void stop() noexcept override { open_.clear(); }  // of a run that ended in the middle of a step

 private:
  struct Joint;

  const StageSite site_;
  std::map<std::uint64_t, std::shared_ptr<Joint>> open_;  // by step; until every replica's result has come
};

}  // namespace millrace
