#include "millrace/layer.h"

MILLRACE_PLUGIN("layers", "1.0", "Layers that are computed by portable kernels.") { millrace::add_local_layers(registry); }
