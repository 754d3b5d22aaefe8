#include "adam_kernels.h"
#include "millrace/plugin.h"
#include "millrace/util/moments_optimizer.h"

namespace millrace {
namespace {

class Adam : public MomentsOptimizer {
 public:
  using MomentsOptimizer::MomentsOptimizer;
  using MomentsOptimizer::Params;
  static void describe(OptimizerDescription<Params>& d) {
    d.name("adam").text("Adam, arXiv 1412.6980, as torch.optim.Adam: adds weight decay to the gradient.");
    describe_moments(d);
  }
  AdamKernel kernel(const UpdateTime& time) const { return {moments(time)}; }
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_optimizer<millrace::Adam>(); }
