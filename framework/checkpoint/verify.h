// Verifies that the data of a resumed run are unchanged: rereads the last batches, whose hashes the checkpoint holds.
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

using BatchHashList = std::vector<SavedState::BatchHash>;  // consecutive steps, the newest last

// Reads the batches of steps [first, last) without training. REQUIRES: the graph is not running.
BatchHashList read_batches(Graph& graph, std::uint64_t first, std::uint64_t last);

// Sums hashes over processes, each of which has hashed its own slots. All processes call it with equal numbers of hashes; null:
// there is one.
BatchHashList sums_of_processes(const BatchHashList& mine, Group* group);

// Compares the last `most` batches before the checkpoint with those that `read` returns for steps [first, last). All processes
// call it. `first_step`: the resumed run's first step. Returns a line for the log. Throws Error(usage) if the checkpoint cannot
// be compared, or that names the first step whose batch differs, after all processes have left the group in good order.
using ReadBatches = std::function<BatchHashList(std::uint64_t first, std::uint64_t last)>;
std::string verify_batches(const FoundCheckpoint& from, std::uint64_t first_step, std::uint64_t most, const ReadBatches& read,
                           Group* group);

}  // namespace millrace
