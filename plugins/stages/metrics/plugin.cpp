#include "millrace/plugin.h"
#include "metrics.h"

MILLRACE_PLUGIN("metrics", "1.0", "What a step achieved: loss and accuracy.") { registry.add_stage<millrace::Metrics>(); }
