#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "muon_kernels.h"

namespace millrace {
namespace {

class Muon {
 public:
  struct Params {
    double momentum = 0.95;
    bool nesterov = true;
    std::int64_t steps = 5;
    bool normalise = false;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("muon").text(
        "Muon, kellerjordan.github.io/posts/muon: orthogonalised momentum, for matrices and filters; weight decay is decoupled. "
        "Biases and normalisation need another optimizer: groups = [{ vectors = true, type = \"adamw\" }].");
    d.scope(OptimizerScope::matrix).momentum(&Params::momentum);
    d.state("momentum", 0, [](const Params& params) { return params.momentum != 0; });
    d.params.add("momentum", &Params::momentum).range(0, 1).text("decay rate of the momentum; below 1");
    d.params.add("nesterov", &Params::nesterov).text("Nesterov momentum");
    d.params.add("steps", &Params::steps).range(1, 20).text("Newton-Schulz steps, which orthogonalise the momentum");
    d.params.add("normalise", &Params::normalise).text("scales parameters to a mean squared row length of 1 before updates");
  }
  explicit Muon(const Params& params) : params_(params) {
    if (params.momentum == 1) fail(ErrorKind::usage, "momentum must be below 1");
    if (params.nesterov && params.momentum == 0) fail(ErrorKind::usage, "nesterov = true needs a momentum above 0");
  }
  NewtonSchulz newton_schulz() const { return {.steps = static_cast<int>(params_.steps)}; }
  MuonKernel kernel(const UpdateTime&) const {
    return {static_cast<float>(params_.momentum), params_.nesterov, params_.normalise};
  }

 private:
  Params params_;
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Muon>(); }
