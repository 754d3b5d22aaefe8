#include <cmath>
#include <limits>

#include "adafactor_kernels.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

class Adafactor {
 public:
  struct Params {
    double beta2_decay = -0.8, epsilon1 = 1.1920929e-7, epsilon2 = 1e-3, clip_threshold = 1;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("adafactor")
        .text(
            "Adafactor, arXiv 1804.04235, as torch.optim.Adafactor: stores a number per row and column of a weight instead of "
            "two per element. Steps are relative to the weight's size; weight decay is decoupled.");
    d.scope(OptimizerScope::parameter);
    d.state("row_variance", StateShape::rows).state("column_variance", StateShape::columns);
    d.state("mean_variance", StateShape::scalar);
    d.params.add("beta2_decay", &Params::beta2_decay)
        .range(-1, 0)
        .text("step t replaces the share t ^ beta2_decay of the mean squared gradient; below 0");
    d.params.add("epsilon1", &Params::epsilon1).range(0).text("minimum root mean square; above 0, default: float32's epsilon");
    d.params.add("epsilon2", &Params::epsilon2).range(0).text("minimum weight size for relative steps");
    d.params.add("clip_threshold", &Params::clip_threshold)
        .range(0)
        .text("maximum root mean square of an update before the learning rate; above 0");
  }
  explicit Adafactor(const Params& params) : params_(params) {
    if (params.beta2_decay == 0) fail(ErrorKind::usage, "beta2_decay must be below 0, or only the last gradient counts");
    const auto epsilon = static_cast<float>(params.epsilon1);
    if (epsilon * epsilon < std::numeric_limits<float>::min()) {
      fail(ErrorKind::usage, "epsilon1 must be above 1.1e-19: its square is divided by, in float32");
    }
    if (static_cast<float>(params.clip_threshold) == 0)
      fail(ErrorKind::usage, "clip_threshold must be above 0, or nothing learns");
  }
  AdafactorKernel kernel(const UpdateTime& time) const {
    const auto t = static_cast<double>(time.updates_done + 1);
    const auto number = [](double value) { return static_cast<float>(value); };
    return {.new_share = number(std::pow(t, params_.beta2_decay)),
            .largest_step = number(1 / std::sqrt(t)),
            .epsilon1 = number(params_.epsilon1),
            .epsilon2 = number(params_.epsilon2),
            .clip_threshold = number(params_.clip_threshold)};
  }

 private:
  Params params_;
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Adafactor>(); }
