// Ranks that are to train together may have been started with different files, options or data. Then they would hang, or train
// nonsense.
#pragma once

#include "prepare/prepared_run.h"

namespace millrace {

// Throws Error on all ranks, naming the first differences from rank 0: Error(usage) of files and options, Error(data) of what
// sources list, or of what a few samples hold (stages/contents.h). What may change when a run is resumed (threads, paths of data)
// may differ. Warns on rank 0 of devices whose libraries or instructions differ. All ranks call it, with the data listed.
void require_same_run(PreparedRun& run, Group& group);

// Throws Error(usage) on all ranks, naming the first that runs another version of Millrace or of a plugin than rank 0, and each
// version that differs. All ranks call it before anything else is exchanged.
void require_same_versions(const Pipeline& pipeline, const Registry& registry, Group& group);

}  // namespace millrace
