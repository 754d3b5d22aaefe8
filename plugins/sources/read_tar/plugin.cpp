#include "millrace/plugin.h"
#include "read_tar.h"

MILLRACE_PLUGIN("read_tar", "1.0", "Samples in tar shards in WebDataset's layout.") { registry.add_stage<millrace::ReadTar>(); }
