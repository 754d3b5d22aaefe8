// For stages that make batches: how many bad samples a run bears, so that a data set with more is refused before it trains.
#pragma once

#include <cstdint>

namespace millrace {

// A Batcher implements this too, where it ends runs with too many.
class HasBadSampleBudget {
 public:
  virtual ~HasBadSampleBudget() = default;

  // How many an epoch, or a pass of another graph, may have; 0: the first one ends the run.
  virtual std::uint64_t bad_sample_budget() const = 0;
};

}  // namespace millrace
