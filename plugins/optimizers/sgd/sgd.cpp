#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "sgd_kernels.h"

namespace millrace {
namespace {

class Sgd {
 public:
  struct Params {
    double momentum = 0;
    bool nesterov = false;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("sgd").text("Stochastic gradient descent, as torch.optim.SGD; with Nesterov momentum, Sutskever et al. 2013.");
    d.state("momentum", 0, [](const Params& params) { return params.momentum != 0; }).momentum(&Params::momentum);
    d.params.add("momentum", &Params::momentum).range(0, 1).text("decay rate of the momentum; below 1");
    d.params.add("nesterov", &Params::nesterov).text("Nesterov momentum");
  }
  explicit Sgd(const Params& params) : params_(params) {
    if (params.momentum == 1) fail(ErrorKind::usage, "momentum must be below 1");
    if (params.nesterov && params.momentum == 0) fail(ErrorKind::usage, "nesterov = true needs a momentum above 0");
  }
  SgdKernel kernel(const UpdateTime&) const { return {static_cast<float>(params_.momentum), params_.nesterov}; }

 private:
  Params params_;
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Sgd>(); }
