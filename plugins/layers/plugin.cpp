#include "millrace/plugin.h"

MILLRACE_PLUGIN("layers", "1.0", "Layers computed by portable kernels.") { millrace::register_parts(registry); }
