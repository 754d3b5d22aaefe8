#include "huber_kernels.h"

#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Huber 1964, "Robust estimation of a location parameter", as torch.nn.HuberLoss. Mean over all numbers of a target, as in
// mean_squared_error.
class Huber final : public Loss {
 public:
  struct Params {
    double delta = 1;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("huber").text(
        "Mean of d^2 / 2 where d = |output - target| is below delta, else of delta * (d - delta / 2), for predicted numbers or "
        "images.");
    d.target(LossTarget::values).example("", {5}).example("delta = 0.25", {3, 6, 7});
    d.params.add("delta", &Params::delta).range(0).text("distance beyond which the gradient is constant; above 0").in_recipes();
  }
  explicit Huber(const Params& params) : delta_(static_cast<float>(params.delta)) {
    if (delta_ == 0) fail(ErrorKind::usage, "delta must be above 0, found {}", params.delta);
  }

  void compute(LossPass& pass) const override {
    pass.row(HuberKernel{delta_}, {pass.output(), pass.target(), pass.weight()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight)});
  }

 private:
  const float delta_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::Huber>(); }
