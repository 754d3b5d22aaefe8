#include "loss_params.h"

namespace millrace {

void LossParams::describe(ParamSet<LossParams>& set) {
  set.add("rule", &LossParams::rule).choices({"cross_entropy"}).text("what is minimised, of the network's outputs as logits");
  set.add("label_smoothing", &LossParams::label_smoothing)
      .range(0, 1)
      .text("share of each label's probability that is spread evenly over all classes");
  set.add("reduction", &LossParams::reduction)
      .choices({"mean", "sum"})
      .text("whether gradients are those of the mean over the global batch or of the sum; reports are always means");
}

LossSpec LossParams::spec() const { return {.rule = rule, .label_smoothing = label_smoothing, .sum = reduction == "sum"}; }

}  // namespace millrace
