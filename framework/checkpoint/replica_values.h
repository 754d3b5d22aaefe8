// The values of a run's replicas, as checkpoints hold them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "weight_files/replica_view.h"
#include "weight_files/weights.h"

namespace millrace {

// Bytes of the values that a checkpoint holds. `all_replicas`: of all processes.
std::size_t checkpoint_bytes(const Network& network, const Replica& replica, const std::vector<std::string>& copies,
                             std::size_t all_replicas);

// Adds every state of every parameter to `tensors`, and statistics of all replicas; all processes call it. What is equal in all
// replicas is copied from the first one, and fetched by what it returns while training goes on; null: nothing is left to fetch.
using FetchTensors = std::function<void(std::vector<NamedTensor>& tensors)>;
FetchTensors capture_values(const ReplicaView& view, std::vector<NamedTensor>& tensors);

// Writes the values of a checkpoint into the replicas. Of another number of replicas it deals statistics out again. Throws
// Error(usage) for a tensor that is missing or has another shape; `pipeline`: for that message.
void restore_values(const ReplicaView& view, const FoundCheckpoint& from, const std::string& pipeline);

// The weights that other graphs saw at a checkpoint, as files of weights hold them: the mean of statistics, and the average of
// weights where there is one. Nothing: the checkpoint is of another network. REQUIRES: it lives while values are fetched.
std::optional<WeightsFile::Fetch> evaluated_values(const ReplicaView& view, const Checkpoint& checkpoint);

}  // namespace millrace
