// Ranks that are to train together may have been started with different files, options or data. Then they would hang, or train
// nonsense.
#pragma once

#include "prepare/prepared_run.h"

namespace millrace {

// Throws Error on all ranks, naming the first differences from rank 0: Error(usage) of files and options, Error(data) of what
// sources list. What may change when a run is resumed (threads, paths of data) may differ. All ranks call it, with the data listed.
void require_same_run(const PreparedRun& run, Group& group);

}  // namespace millrace
