// What `pipeline-run --check` prints: everything that is known before data is touched.
#pragma once

#include <string>

#include "prepare/prepared_run.h"

namespace millrace {

// Plan, shapes, steps, devices, and the memory bound per stage and device. A few lines of plain text.
std::string check_report(const PreparedRun& run);

}  // namespace millrace
