#include "millrace/plugin.h"

MILLRACE_PLUGIN("layers", "1.0", "Layers that are computed by portable kernels.") { millrace::register_parts(registry); }
