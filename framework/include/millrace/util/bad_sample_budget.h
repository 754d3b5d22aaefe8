// For stages that make batches: how many bad samples a run bears, so that a data set with more is refused before it trains, and
// so that the ranks of a run count theirs together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// A Batcher implements this too, where it ends runs with too many.
class HasBadSampleBudget {
 public:
  virtual ~HasBadSampleBudget() = default;

  // How many an epoch, or a pass of another graph, may have; 0: the first one ends the run.
  virtual std::uint64_t bad_sample_budget() const = 0;

  // The bad samples of this rank since the last call, for count_found() of every rank; "": there are none. Thread-safe, both.
  virtual std::string take_found() = 0;
  // Throws Error(data) where those of all ranks are more than the budget.
  virtual void count_found(std::string_view found) = 0;
};

}  // namespace millrace
