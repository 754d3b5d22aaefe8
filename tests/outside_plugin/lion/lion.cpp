// An update rule in a separate project.
#include <millrace/plugin.h>

#include "lion_kernels.h"

namespace {

using namespace millrace;

class Lion {
 public:
  struct Params {
    double beta1 = 0.9, beta2 = 0.99;
  };
  static void describe(RuleDescription<Params>& d) {
    d.name("lion").text("Lion, arXiv 2302.06675: the sign of the momentum.").state("momentum");
    d.params.add("beta1", &Params::beta1).range(0, 1).text("share of the momentum in an update");
    d.params.add("beta2", &Params::beta2).range(0, 1).text("share of the momentum that stays from step to step");
  }
  explicit Lion(const Params& params) : params_(params) {
    if (params.beta2 == 1) fail(ErrorKind::usage, "beta2 must be below 1, or the momentum never changes");
  }
  LionKernel kernel(std::uint64_t) const { return {static_cast<float>(params_.beta1), static_cast<float>(params_.beta2)}; }

 private:
  Params params_;
};

}  // namespace

MILLRACE_PLUGIN("lion", "1.0", "The update rule Lion.") { registry.add_rule<Lion>(); }
