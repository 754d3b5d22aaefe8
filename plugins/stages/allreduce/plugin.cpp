#include "millrace/plugin.h"
#include "allreduce.h"

MILLRACE_PLUGIN("allreduce", "1.0", "Sums of gradients over the replicas of a run.") {
  registry.add_stage<millrace::Allreduce>();
}
