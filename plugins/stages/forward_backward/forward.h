#pragma once

#include <string>
#include <vector>

#include "device_clock.h"
#include "millrace/loss.h"
#include "millrace/stage.h"
#include "millrace/step.h"

namespace millrace {

// Inference over a replica's share of a batch, with running statistics: for validation.
//
// Ports: "in" takes a Batch, "result" sends one StepResult. One instance for each replica; shares are those of split().
//
// `test_time` averages the logits of several views of each image: "flip", the image and its mirror image; "flip_translate", with
// mirror(x) the mean of those two: 0.5 mirror(x) + 0.25 mirror(x shifted by (-1, -1)) + 0.25 mirror(x shifted by (1, 1)), borders
// reflected (arXiv 2404.00498, section 3.5).
class Forward : public Stage {
 public:
  struct Params : LossParams {
    std::string test_time = "none";
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageContext& context, CompileRequest& request);
  Forward(const Params& params, const StageContext& context);

  void process(int port, Packet packet, Output& output) override;
  DeviceWork device_work() const override { return clock_.work(); }

 private:
  const std::shared_ptr<const Loss> loss_;
  std::vector<View> views_;
  const StageContext context_;
  DeviceClock clock_;
};

// The views of a choice of `test_time`; their weights add up to 1.
std::vector<View> test_time_views(const std::string& test_time);

}  // namespace millrace
