#include "adam_kernels.h"
#include "millrace/plugin.h"
#include "millrace/util/moments_rule.h"

namespace millrace {
namespace {

class Adam : public MomentsRule {
 public:
  using MomentsRule::MomentsRule;
  using MomentsRule::Params;
  static void describe(RuleDescription<Params>& d) {
    d.name("adam").text("Adam, arXiv 1412.6980, as torch.optim.Adam: weight decay is added to the gradient.");
    describe_moments(d);
  }
  AdamKernel kernel(std::uint64_t updates_done) const { return {moments(updates_done)}; }
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_rule<millrace::Adam>(); }
