#include "mean_squared_error_kernels.h"

#include <cmath>

#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Mean over all numbers of a target, whether a sample's row of numbers or the pixels and channels of its target image.
class MeanSquaredError final : public Loss {
 public:
  struct Params {};
  static void describe(LossDescription<Params>& d) {
    d.name("mean_squared_error").text("Mean of (output - target)^2, for numbers or images to be predicted.");
    d.target(LossTarget::values).example("", {5}).example("", {3, 6, 7});
    d.figure({.name = "rmse", .text = "root of the mean squared error", .finish = [](std::span<const double> sums) {
                return std::sqrt(quotient(sums[kLoss], sums[kWeight]));
              }});
  }

  void compute(LossPass& pass) const override {
    pass.row(MeanSquaredErrorKernel{}, {pass.output(), pass.target(), pass.weight()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight)});
  }
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::MeanSquaredError>(); }
