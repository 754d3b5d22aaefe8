#include "lamb_kernels.h"
#include "millrace/plugin.h"
#include "millrace/util/moments_rule.h"

namespace millrace {
namespace {

class Lamb : public MomentsRule {
 public:
  struct Params : MomentsRule::Params {
    Params() { epsilon = 1e-6; }
  };
  using MomentsRule::MomentsRule;
  static void describe(RuleDescription<Params>& d) {
    d.name("lamb").text(
        "LAMB for large batches, arXiv 1904.00962: steps of adamw, as long as the parameter. Parameters that are not decayed are "
        "updated as by adamw.");
    d.scope(RuleScope::parameter);
    describe_moments(d);
  }
  LambKernel kernel(std::uint64_t updates_done) const { return {moments(updates_done)}; }
};

}  // namespace
}  // namespace millrace

MILLRACE_PART { registry.add_rule<millrace::Lamb>(); }
