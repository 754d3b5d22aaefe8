// The table `loss` of a stage: the name of a loss, its parameters, and the reduction.
#pragma once

#include "millrace/plugin.h"

namespace millrace {

// Adds what is wrong with the loss in a stage's table. `owner` names the stage's table: "[train.forward_backward]".
void check_loss_table(const Value& stage_table, const Registry& registry, const std::string& owner, Diagnostics& errors);

}  // namespace millrace
