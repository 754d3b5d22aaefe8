#include "millrace/plugin.h"

MILLRACE_PLUGIN("observers", "1.0", "Observers: progress, metrics, results and the ledger of bad samples.") {
  millrace::register_parts(registry);
}
