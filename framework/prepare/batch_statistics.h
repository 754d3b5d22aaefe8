// Checks that a training graph's batches have enough values for batch normalisation.
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
  std::uint32_t size = 0;             // samples per batch
  std::uint32_t last = 0;             // size of an epoch's last batch if it is smaller, else 0
  std::size_t replicas = 1;           // in all processes
  std::span<const double> load = {};  // as for split()
};

// Throws Error(usage) if a layer would normalise by the mean and variance of one value per channel. That variance is 0: the
// layer would output its shift for any input, and its running variance would approach 0.
void require_variance(const Network& network, const CompileRequest& request, const TrainedBatches& batches);

}  // namespace millrace
