// What the parts of a run have done, as observers are told.
#pragma once

#include "millrace/observer.h"
#include "run/run_context.h"

namespace millrace {

// Of the main graph, since it was made. `bottleneck` and `seconds` are the caller's to fill in.
TelemetryEvent telemetry_of_main(const RunContext& run);

}  // namespace millrace
