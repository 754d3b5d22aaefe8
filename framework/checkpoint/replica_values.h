// The values of a run's replicas, as checkpoints hold them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "weights/replica_view.h"
#include "weights/weights.h"

namespace millrace {

// Bytes of a checkpoint's values. `all_replicas`: the number in all processes.
std::size_t checkpoint_bytes(const Network& network, const Replica& replica, const std::vector<std::string>& copies,
                             std::size_t all_replicas);

// Adds every state of every parameter to `tensors`, and statistics of all replicas. All processes call it. Values equal in all
// replicas are copied from the first one, by the returned function, while training continues; null: nothing is left to fetch.
using FetchTensors = std::function<void(std::vector<NamedTensor>& tensors)>;
FetchTensors capture_values(const ReplicaView& view, std::vector<NamedTensor>& tensors);

// Writes a checkpoint's values into the replicas. Redistributes statistics if the number of replicas changed. Throws
// Error(usage) for a tensor that is missing or has another shape; `pipeline`: for the message.
void restore_values(const ReplicaView& view, const FoundCheckpoint& from, const std::string& pipeline);

// The weights used by other graphs at a checkpoint, as stored in files of weights: mean statistics, and averaged weights if
// there are any. Empty if the checkpoint belongs to another network. REQUIRES: the checkpoint lives while values are fetched.
std::optional<WeightsFile::Fetch> evaluated_values(const ReplicaView& view, const Checkpoint& checkpoint);

}  // namespace millrace
