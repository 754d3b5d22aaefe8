#include "millrace/plugin.h"

MILLRACE_PLUGIN("rules", "1.0", "Update rules: how a gradient changes a parameter.") { millrace::register_parts(registry); }
