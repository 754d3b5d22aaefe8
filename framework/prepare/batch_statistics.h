// Whether the batches that a graph trains with leave batch normalisation enough values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

struct TrainedBatches {
  std::string graph;                  // for messages
  std::uint32_t size = 0;             // of a batch
  std::uint32_t last = 0;             // of an epoch's last one where it is smaller; 0: it is not
  std::size_t replicas = 1;           // of all processes
  std::span<const double> load = {};  // as split() takes it
};

// Throws Error(usage) where a layer would normalise by the mean and variance of one value a channel. Such a variance is 0: the
// layer would give its shift, whatever its input is, and its running variance would go to 0.
void require_variance(const Network& network, const CompileRequest& request, const TrainedBatches& batches);

}  // namespace millrace
