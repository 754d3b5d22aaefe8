#include "millrace/plugin.h"

MILLRACE_PLUGIN("losses", "1.0", "Losses: what training minimises.") { millrace::register_parts(registry); }
