#include "lamb_kernels.h"
#include "millrace/plugin.h"
#include "millrace/util/moments_optimizer.h"

namespace millrace {
namespace {

class Lamb : public MomentsOptimizer {
 public:
  struct Params : MomentsOptimizer::Params {
    Params() { epsilon = 1e-6; }
  };
  using MomentsOptimizer::MomentsOptimizer;
  static void describe(OptimizerDescription<Params>& d) {
    d.name("lamb").text(
        "LAMB for large batches, arXiv 1904.00962: adamw steps scaled to the parameter's norm; parameters without weight decay "
        "use adamw.");
    d.scope(OptimizerScope::parameter);
    describe_moments(d);
  }
  LambKernel kernel(const UpdateTime& time) const { return {moments(time)}; }
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Lamb>(); }
