#include "millrace/plugin.h"

MILLRACE_PLUGIN("optimizers", "1.0", "Optimizers: how a gradient changes a parameter.") { millrace::register_parts(registry); }
