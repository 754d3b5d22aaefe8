// Optimizers in a stage's table. Included by optimizer.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "millrace/optimizer.h"
#include "millrace/params.h"

namespace millrace {

struct StageSite;

// Parameters of a stage that works with an optimizer: its Params derive from this, and its describe() calls this one's. The
// optimizer's own keys are in the stage's table, or in the tables of a list: add_list(name, field, describe,
// &OptimizerParams::optimizer_table).
struct OptimizerParams {
  std::string optimizer;
  Value optimizer_table;  // keys other than the stage's

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("type", &OptimizerParams::optimizer).text("update rule; the optimizer's own keys belong in this table too");
  }
};
// Makes the optimizer of the stage's table, or of a table in a list called `list`; null if such a table names none. Throws
// Error(usage) with all mistakes in the table.
std::shared_ptr<const Optimizer> make_optimizer(const OptimizerParams& params, const StageSite& site, std::string_view list = {});

}  // namespace millrace
