// An update rule in a separate project.
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
  static void describe(RuleDescription<Params>& d) {
    d.name("qhm").text("Quasi-hyperbolic momentum, arXiv 1810.06801: between the gradient and its mean.").state("momentum");
    d.params.add("beta", &Params::beta).range(0, 1).text("share of the mean gradient that stays from step to step");
    d.params.add("nu", &Params::nu).range(0, 1).text("share of the mean gradient in an update");
  }
  explicit Qhm(const Params& params) : params_(params) {
    if (params.beta == 1) fail(ErrorKind::usage, "beta must be below 1, or the momentum never changes");
  }
  QhmKernel kernel(std::uint64_t) const { return {static_cast<float>(params_.beta), static_cast<float>(params_.nu)}; }

 private:
  Params params_;
};

}  // namespace

MILLRACE_PLUGIN("qhm", "1.0", "The update rule QHM.") { registry.add_rule<Qhm>(); }
