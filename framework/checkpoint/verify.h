// Whether the data of a resumed run is still the same: its checkpoint holds hashes of the last batches, which are read again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/saved_state.h"
#include "graph/graph.h"
#include "millrace/util/group.h"

namespace millrace {

using BatchHashList = std::vector<SavedState::BatchHash>;  // of consecutive steps, the newest one last

// Reads the batches of the steps [first, last) and does none of the steps. REQUIRES: the graph is not running.
BatchHashList read_batches(Graph& graph, std::uint64_t first, std::uint64_t last);

// Each of several processes has hashed its slots of each batch: the sums are of whole batches. All processes call it with as many
// hashes; null: there is one.
BatchHashList sums_of_processes(const BatchHashList& mine, Group* group);

// Compares the last `most` batches before the checkpoint with those that `read` reads, of the steps [first, last); of several
// processes all call it. `first_step`: with which the run resumes. Returns a line that says what was compared. Throws
// Error(usage) that names the first step whose batch differs, after all processes have left the group in good order; and where
// the checkpoint cannot be compared with.
using ReadBatches = std::function<BatchHashList(std::uint64_t first, std::uint64_t last)>;
std::string verify_batches(const FoundCheckpoint& from, std::uint64_t first_step, std::uint64_t most, const ReadBatches& read,
                           Group* group);

}  // namespace millrace
