// --quiet, --json, --page and --top: the output of this call.
#pragma once

#include "command_line.h"
#include "config/plan.h"

namespace millrace {

// Changes the active observers. Pipeline::resolved, the file that the run keeps, stays unchanged: a later command chooses its own
// output. Throws Error(usage) for values that an observer refuses, and for one that no plugin has.
void talk_as_asked(const CommandLine& line, const Registry& registry, Pipeline& pipeline);

}  // namespace millrace
