#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "rmsprop_kernels.h"

namespace millrace {
namespace {

class Rmsprop {
 public:
  struct Params {
    double alpha = 0.99, epsilon = 1e-8, momentum = 0;
    bool centered = false;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("rmsprop").text("RMSprop, Hinton's lecture 6e (2012), as torch.optim.RMSprop; centered as in arXiv 1308.0850.");
    d.state("variance");
    d.state("mean", 0, [](const Params& params) { return params.centered; });
    d.state("momentum", 0, [](const Params& params) { return params.momentum != 0; }).momentum(&Params::momentum);
    d.params.add("alpha", &Params::alpha).range(0, 1).text("decay rate of the mean squared gradient; below 1");
    d.params.add("epsilon", &Params::epsilon).range(0).text("added to the root of the mean square; above 0");
    d.params.add("momentum", &Params::momentum).range(0, 1).text("decay rate of the momentum; below 1");
    d.params.add("centered", &Params::centered).text("subtract the squared mean gradient from the mean square");
  }
  explicit Rmsprop(const Params& params) : params_(params) {
    if (params.alpha == 1 || params.momentum == 1) fail(ErrorKind::usage, "alpha and momentum must be below 1");
    if (static_cast<float>(params.epsilon) == 0) fail(ErrorKind::usage, "epsilon must be above 0");  // or padding is 0 / 0
  }
  RmspropKernel kernel(const UpdateTime&) const {
    return {.alpha = static_cast<float>(params_.alpha),
            .new_share = static_cast<float>(1 - params_.alpha),
            .epsilon = static_cast<float>(params_.epsilon),
            .momentum = static_cast<float>(params_.momentum),
            .centred = params_.centered};
  }

 private:
  Params params_;
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Rmsprop>(); }
