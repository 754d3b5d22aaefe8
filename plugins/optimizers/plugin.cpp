#include "millrace/plugin.h"

MILLRACE_PLUGIN("optimizers", "1.0", "Optimizers: update rules of parameters.") { millrace::register_parts(registry); }
