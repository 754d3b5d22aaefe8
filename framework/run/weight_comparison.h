// Replicas add up the same gradients and update the same weights. A device that computes wrongly, or faulty memory, makes
// them drift apart, and nothing else would notice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/run_context.h"

namespace millrace {

bool compares_weights_after(const RunContext& run, std::uint64_t done);  // so many steps; never with one replica

// By replica, the checksum of each parameter: "replica 2: conv1.weight and 3 more"; "": all are as those of replica 0.
std::string differing_weights(const std::vector<std::vector<std::uint64_t>>& checksums, const std::vector<std::string>& names);

// Throws Error(device) that names the replicas whose weights are not those of the first one. All processes call it.
// REQUIRES: replicas have finished.
void require_same_weights(const RunContext& run, std::uint64_t done);

}  // namespace millrace
