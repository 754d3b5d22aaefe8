// What may be chosen about how libraries compute.
#pragma once

#include <cstddef>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

// What a search may cost. cuDNN lists the promising engines first; with Tune::measure so many that work are timed.
inline constexpr std::size_t kMostMeasured = 10;
inline constexpr double kHeuristicSeconds = 2, kMeasuredSeconds = 5;  // for each shape, on the clock
// Engines whose code cuDNN generates and compiles while they are finalised, which takes seconds for each. They are tried for a
// convolution with bias or activation alone: few others fuse these, and there are others for a bare convolution.
inline constexpr std::size_t kMostCompiled = 2;

struct PlanOptions {
  Tune tune = Tune::heuristic;
  bool deterministic = false;                          // only engines whose results are the same to the bit in every run
  bool compiles = true;                                // false: no engine is taken whose code is compiled on the spot
  std::size_t workspace_limit = std::size_t{1} << 30;  // bytes; engines that need more are passed over
  double search_seconds = 0;                           // 0: as the constants above say

  std::size_t most() const { return tune == Tune::measure ? kMostMeasured : 1; }
  double seconds() const {
    if (search_seconds > 0) return search_seconds;
    return tune == Tune::measure ? kMeasuredSeconds : kHeuristicSeconds;
  }

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

// False where MILLRACE_CUDA_RUNTIME_COMPILATION is 0.
bool compiles_by_environment();

}  // namespace millrace::cuda
