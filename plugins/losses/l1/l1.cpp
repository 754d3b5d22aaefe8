#include "l1_kernels.h"

#include "millrace/loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Mean over all numbers of a target, as in mean_squared_error. The gradient is 0 if output and target are equal. The examples are
// small, so that no output is within a gradient check's step of its target.
class L1 final : public Loss {
 public:
  struct Params {};
  static void describe(LossDescription<Params>& d) {
    d.name("l1").text("Mean of |output - target|, for predicted numbers or images.");
    d.target(LossTarget::values).example("", {3}).example("", {2, 2, 3});
  }

  void compute(LossPass& pass) const override {
    pass.row(L1Kernel{}, {pass.output(), pass.target(), pass.weight()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight)});
  }
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::L1>(); }
