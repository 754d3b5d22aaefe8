#include "mean_squared_error_kernels.h"

#include <cmath>

#include "millrace/loss.h"
#include "millrace/plugin.h"

namespace millrace::losses {
namespace {

// Mean over all numbers of a target, whether a sample's row of numbers or the pixels and channels of its target image.
//
// The metric `psnr` uses the mean error over all images. Papers and write_quality average each image's PSNR: that is larger,
// because the negative logarithm is convex. Outputs are neither rounded nor clamped to 0 to 255.
class MeanSquaredError final : public Loss {
 public:
  struct Params {
    double peak = 1;
  };
  static void describe(LossDescription<Params>& d) {
    d.name("mean_squared_error").text("Mean of (output - target)^2, for predicted numbers or images.");
    d.target(LossTarget::values).example("", {5}).example("peak = 4", {3, 6, 7});
    d.params.add("peak", &Params::peak)
        .range(1e-6, 1e6)
        .text("for the metric psnr: distance from black to white. 1; if the network's input has a deviation, 1 / deviation")
        .in_recipes();
    d.sum("relative");
    d.figure({.name = "rmse", .text = "root of the mean squared error", .finish = [](std::span<const double> sums) {
                return std::sqrt(quotient(sums[kLoss], sums[kWeight]));
              }});
    d.figure({.name = "psnr",
              .text = "peak signal-to-noise ratio of the mean squared error, in dB",
              .better = LossFigure::Better::higher,
              .finish =
                  [](std::span<const double> sums) {
                    return sums[kWeight] > 0 ? -10 * std::log10(sums[kRelative] / sums[kWeight]) : 0.0;
                  },
              .of_maps = true});
  }
  explicit MeanSquaredError(const Params& params) : kernel_{static_cast<float>(1 / (params.peak * params.peak))} {}

  void compute(LossPass& pass) const override {
    pass.row(kernel_, {pass.output(), pass.target(), pass.weight()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight), pass.figure(kRelative)});
  }

 private:
  static constexpr int kRelative = 2;  // the loss in units of the squared peak

  const MeanSquaredErrorKernel kernel_;
};

}  // namespace
}  // namespace millrace::losses

MILLRACE_PART { registry.add_loss<millrace::losses::MeanSquaredError>(); }
