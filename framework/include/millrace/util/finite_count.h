// Counts predictions of a pass that are not finite, for sinks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "millrace/batch.h"
#include "millrace/stage.h"

namespace millrace {

// Not thread-safe.
//
//   void write(const Predictions& share) {
//     finite_.add(share);
//     ...
//     if (share.last) finite_.end_pass(context_);
//   }
class FiniteCount {
 public:
  // Whether each output of a sample is neither NaN nor +inf. -inf is a probability of 0, and may be intended.
  static bool is_finite(std::span<const float> outputs);

  void add(const Predictions& share) { add(share, share.result()); }
  void add(const Predictions& share, const Predictions::Values& outputs);  // of the layer that is written
  // Warns once about the non-finite predictions, and resets the count. A run that only predicts then ends with exit code 1.
  void end_pass(const StageSite& site);

 private:
  std::uint64_t images_ = 0, wrong_ = 0, step_ = 0;
  std::string first_;  // place of the first one
};

}  // namespace millrace
