// --quiet, --json, --page and --top: how this call talks.
#pragma once

#include "command_line.h"
#include "config/plan.h"

namespace millrace {

// Changes the observers that listen. The file that the run keeps, Pipeline::resolved, stays as it is: a later command that takes
// it talks in its own way. Throws Error(usage) for what an observer does not take, and for one that no plugin has.
void talk_as_asked(const CommandLine& line, const Registry& registry, Pipeline& pipeline);

}  // namespace millrace
