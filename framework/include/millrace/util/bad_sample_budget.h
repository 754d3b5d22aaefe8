// For stages that make batches: the number of bad samples that a run tolerates, so that worse data sets are refused before
// training, and so that the ranks of a run add up their counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// A Batcher that ends runs with too many bad samples implements this too.
class HasBadSampleBudget {
 public:
  virtual ~HasBadSampleBudget() = default;

  // Bad samples allowed in an epoch, or in a pass of another graph; 0: the first one ends the run.
  virtual std::uint64_t bad_sample_budget() const = 0;

  // This rank's bad samples since the last call, for count_found() of every rank; "": none. Both are thread-safe.
  virtual std::string take_found() = 0;
  // Throws Error(data) if all ranks together exceed the budget.
  virtual void count_found(std::string_view found) = 0;
};

}  // namespace millrace
