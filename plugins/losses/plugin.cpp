#include "millrace/plugin.h"

MILLRACE_PLUGIN("losses", "1.0", "Losses that training minimises.") { millrace::register_parts(registry); }
