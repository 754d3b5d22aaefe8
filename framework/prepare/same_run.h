// Detects ranks that were started with different files, options or data, and would hang or train nonsense.
#pragma once

#include "prepare/prepared_run.h"

namespace millrace {

// Throws Error on all ranks, naming the first differences from rank 0: Error(usage) for files and options, Error(data) for
// listings or the contents of a few samples (prepare/contents.h). Settings that a resumed run may change (threads, paths of data)
// may differ. Warns on rank 0 about devices whose libraries or instructions differ. All ranks call it, with the data listed.
void require_same_run(PreparedRun& run, Group& group);

// Throws Error(usage) on all ranks, naming the first rank whose version of Millrace or of a plugin differs from rank 0's, and
// each differing version. All ranks call it before any other exchange.
void require_same_versions(const Pipeline& pipeline, const Registry& registry, Group& group);

}  // namespace millrace
