// How a stage asks for an update rule in its table. Included by optimizer.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "millrace/optimizer.h"
#include "millrace/params.h"

namespace millrace {

struct StageSite;

// Parameters of a stage that works with a rule: its Params derive from this, and its describe() calls this one's. The rule's own
// keys stand beside the stage's, or in the tables of a list: add_list(name, field, describe, &RuleParams::rule_table).
struct RuleParams {
  std::string rule;
  Value rule_table;  // the keys that are not the stage's

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("rule", &RuleParams::rule).text("how a gradient changes a parameter; the rule's own keys stand in this table too");
  }
};
// The rule that the stage asks for, or the table of a list called `list`; null where such a table asks for none. Throws
// Error(usage) with all mistakes in the table.
std::shared_ptr<const Rule> make_rule(const RuleParams& params, const StageSite& site, std::string_view list = {});

}  // namespace millrace
