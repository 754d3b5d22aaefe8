// A loss in a separate project.
#include <millrace/loss.h>
#include <millrace/plugin.h>

#include "poly_kernels.h"

namespace {

using namespace millrace;

class Poly final : public Loss {
 public:
  struct Params {
    double epsilon = 1;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("poly").text("PolyLoss, arXiv 2204.12511: cross-entropy with a heavier first term of its series.");
    d.target(LossTarget::labels).example("", {10}).example("epsilon = 2", {4}).sum("correct");
    d.params.add("epsilon", &Params::epsilon).range(-1, 10).text("how much heavier");
    d.figure({.name = "accuracy",
              .text = "images whose class has the largest output",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[2], sums[kWeight]); }});
  }
  explicit Poly(const Params& params) : epsilon_(static_cast<float>(params.epsilon)) {}
  void compute(LossPass& pass) const override {
    pass.row(PolyKernel{epsilon_}, {pass.output(), pass.weight(), pass.label()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(2)});
  }

 private:
  const float epsilon_;
};

}  // namespace

MILLRACE_PLUGIN("poly", "1.0", "PolyLoss.") { registry.add_loss<Poly>(); }
