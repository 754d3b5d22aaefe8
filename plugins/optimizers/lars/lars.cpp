#include "lars_kernels.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

class Lars {
 public:
  struct Params {
    double momentum = 0.9, trust = 0.001, epsilon = 0;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("lars").text("LARS for large batches, arXiv 1708.03888; parameters without weight decay use plain momentum.");
    d.scope(OptimizerScope::parameter);
    d.state("momentum", 0, [](const Params& params) { return params.momentum != 0; }).momentum(&Params::momentum);
    d.params.add("momentum", &Params::momentum).range(0, 1).text("decay rate of the momentum; below 1");
    d.params.add("trust", &Params::trust)
        .range(0)
        .text("the paper's coefficient eta: update size relative to the parameter; above 0");
    d.params.add("epsilon", &Params::epsilon).range(0).text("added to the norms in the denominator");
  }
  explicit Lars(const Params& params) : params_(params) {
    if (params.momentum == 1) fail(ErrorKind::usage, "momentum must be below 1");
    if (static_cast<float>(params.trust) == 0) fail(ErrorKind::usage, "trust must be above 0, or nothing that is decayed learns");
  }
  LarsKernel kernel(const UpdateTime&) const {
    return {static_cast<float>(params_.momentum), static_cast<float>(params_.trust), static_cast<float>(params_.epsilon)};
  }

 private:
  Params params_;
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Lars>(); }
