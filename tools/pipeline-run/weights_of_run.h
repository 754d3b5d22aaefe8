// --weights RUN_FOLDER
#pragma once

#include "command_line.h"

namespace millrace {

// Uses a run's best weights, or else its last ones, if --weights names its folder, and logs which. Until a resumed run ends, its
// last weights are those from before: then the step of its newest checkpoint is logged. Throws Error(usage) for a folder without
// weights.
void choose_weights_of_run(CommandLine& line);

}  // namespace millrace
