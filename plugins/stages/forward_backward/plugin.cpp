#include "millrace/plugin.h"
#include "forward.h"
#include "forward_backward.h"

MILLRACE_PLUGIN("forward_backward", "1.0", "The network's part of a training step, and of validation.") {
  registry.add_stage<millrace::ForwardBackward>();
  registry.add_stage<millrace::Forward>();
}
