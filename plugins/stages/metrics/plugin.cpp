#include "millrace/plugin.h"
#include "metrics.h"

MILLRACE_PLUGIN("metrics", "1.0", "Results of a step: loss and accuracy.") { registry.add_stage<millrace::Metrics>(); }
