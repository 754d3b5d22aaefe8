#include "millrace/plugin.h"
#include "read_cifar.h"

MILLRACE_PLUGIN("read_cifar", "1.0", "The binary files of CIFAR-10 and CIFAR-100.") { registry.add_stage<millrace::ReadCifar>(); }
