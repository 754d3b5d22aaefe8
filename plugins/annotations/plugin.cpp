#include "millrace/plugin.h"

MILLRACE_PLUGIN("annotations", "1.0", "Formats of annotations.") { millrace::register_parts(registry); }
