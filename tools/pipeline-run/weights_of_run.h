// --weights RUN_FOLDER
#pragma once

#include "command_line.h"

namespace millrace {

// Takes the best weights of a run, or else the last ones, where --weights names its folder, and says which they are. A run that
// was resumed has its last weights of before until it ends: then the step of its newest checkpoint is told. Throws Error(usage)
// for a folder without weights.
void choose_weights_of_run(CommandLine& line);

}  // namespace millrace
