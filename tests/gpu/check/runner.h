// The run itself: its parts, one after the other, within its time.
#pragma once

#include "setting.h"

namespace millrace::gpu {

// Runs the chosen parts that the journal does not show as ended, and returns the run's exit status, which is in the journal too.
// What a part throws is that part's failure.
int run_parts(const Setting& setting);

// The chosen parts that have not ended.
std::vector<std::string> parts_to_run(const Setting& setting);

}  // namespace millrace::gpu
