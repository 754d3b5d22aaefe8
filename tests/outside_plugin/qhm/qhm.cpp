// An optimizer in a separate project.
#include <millrace/optimizer.h>
#include <millrace/plugin.h>

#include "qhm_kernels.h"

namespace {

using namespace millrace;

class Qhm {
 public:
  struct Params {
    double beta = 0.999, nu = 0.7;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("qhm").text("Quasi-hyperbolic momentum, arXiv 1810.06801: between the gradient and its mean.");
    d.state("momentum").momentum(&Params::beta);
    d.params.add("beta", &Params::beta).range(0, 1).text("share of the mean gradient that stays from step to step");
    d.params.add("nu", &Params::nu).range(0, 1).text("share of the mean gradient in an update");
  }
  explicit Qhm(const Params& params) : params_(params) {
    if (params.beta == 1) fail(ErrorKind::usage, "beta must be below 1, or the momentum never changes");
  }
  QhmKernel kernel(const UpdateTime&) const { return {static_cast<float>(params_.beta), static_cast<float>(params_.nu)}; }

 private:
  Params params_;
};

}  // namespace

MILLRACE_PLUGIN("qhm", "1.0", "The optimizer QHM.") { registry.add_optimizer<Qhm>(); }
