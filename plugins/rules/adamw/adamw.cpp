#include "adamw_kernels.h"
#include "millrace/plugin.h"
#include "millrace/util/moments_rule.h"

namespace millrace {
namespace {

class AdamW : public MomentsRule {
 public:
  using MomentsRule::MomentsRule;
  using MomentsRule::Params;
  static void describe(RuleDescription<Params>& d) {
    d.name("adamw").text("AdamW, arXiv 1711.05101, as torch.optim.AdamW: Adam with weight decay apart from the gradient.");
    describe_moments(d);
  }
  AdamWKernel kernel(std::uint64_t updates_done) const { return {moments(updates_done)}; }
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_rule<millrace::AdamW>(); }
