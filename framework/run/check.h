// What `pipeline-run --check` prints: everything that is known before data is touched.
#pragma once

#include <string>

#include "prepare/prepared_run.h"

namespace millrace {

// Rank 0 reports the warnings of all ranks, each once. All processes of the run call it.
void gather_warnings(PreparedRun& run);

// Plan, shapes, steps, devices, and the memory bound per stage and device. A few lines of plain text. All processes
// of the run call it.
std::string check_report(const PreparedRun& run);

}  // namespace millrace
