#include "lion_kernels.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

class Lion {
 public:
  struct Params {
    double beta1 = 0.9, beta2 = 0.99;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("lion").text(
        "Lion, arXiv 2302.06675: the sign of a mean gradient. Needs a third to a tenth of adamw's rate, and correspondingly more "
        "decay.");
    d.state("momentum").momentum(&Params::beta1);
    d.params.add("beta1", &Params::beta1).range(0, 1).text("share of the momentum in a step; below 1");
    d.params.add("beta2", &Params::beta2).range(0, 1).text("decay rate of the momentum; below 1");
  }
  explicit Lion(const Params& params) : params_(params) {
    if (params.beta1 == 1 || params.beta2 == 1) fail(ErrorKind::usage, "beta1 and beta2 must be below 1");
  }
  LionKernel kernel(const UpdateTime&) const {
    return {static_cast<float>(params_.beta1), static_cast<float>(params_.beta2), static_cast<float>(1 - params_.beta1),
            static_cast<float>(1 - params_.beta2)};
  }

 private:
  Params params_;
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Lion>(); }
