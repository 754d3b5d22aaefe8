#include "adamw_kernels.h"
#include "millrace/plugin.h"
#include "millrace/util/moments_optimizer.h"

namespace millrace {
namespace {

class AdamW : public MomentsOptimizer {
 public:
  using MomentsOptimizer::MomentsOptimizer;
  using MomentsOptimizer::Params;
  static void describe(OptimizerDescription<Params>& d) {
    d.name("adamw").text("AdamW, arXiv 1711.05101, as torch.optim.AdamW: Adam with decoupled weight decay.");
    describe_moments(d);
  }
  AdamWKernel kernel(const UpdateTime& time) const { return {moments(time)}; }
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::AdamW>(); }
