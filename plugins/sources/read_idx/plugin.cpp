#include "millrace/plugin.h"
#include "read_idx.h"

MILLRACE_PLUGIN("read_idx", "1.0", "MNIST's IDX files.") { registry.add_stage<millrace::ReadIdx>(); }
