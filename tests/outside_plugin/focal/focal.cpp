// A loss in a separate project.
#include <millrace/plugin.h>

#include "focal_kernels.h"

namespace {

using namespace millrace;

class Focal final : public Loss {
 public:
  struct Params {
    double gamma = 2;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("focal").text("Focal loss, arXiv 1708.02002: cross-entropy that cares less for what is known already.");
    d.target(LossTarget::labels).example("", {10}).example("gamma = 1", {4}).sum("correct");
    d.params.add("gamma", &Params::gamma).range(1, 10).text("how much less");
    d.figure({.name = "accuracy",
              .text = "images whose class has the largest output",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[2], sums[kWeight]); }});
  }
  explicit Focal(const Params& params) : gamma_(static_cast<float>(params.gamma)) {}
  void compute(LossPass& pass) const override {
    pass.row(FocalKernel{gamma_}, {pass.output(), pass.weight(), pass.label()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(2)});
  }

 private:
  const float gamma_;
};

}  // namespace

MILLRACE_PLUGIN("focal", "1.0", "The focal loss.") { registry.add_loss<Focal>(); }
