// Options for choosing library plans.
#pragma once

#include <cstddef>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

// Limits of a search. cuDNN lists promising engines first; Tune::measure times this many working ones.
inline constexpr std::size_t kMaxMeasured = 10;
inline constexpr double kHeuristicSeconds = 2, kMeasuredSeconds = 5;  // per shape
// Engines whose code cuDNN generates and compiles when finalised, which takes seconds each. Tried only for a convolution with
// bias or activation: few other engines fuse these, and a bare convolution has others.
inline constexpr std::size_t kMaxCompiled = 2;

struct PlanOptions {
  Tune tune = Tune::heuristic;
  bool deterministic = false;                          // only engines with bit-identical results in every run
  bool compiles = true;                                // false: no engines compiled at run time
  std::size_t workspace_limit = std::size_t{1} << 30;  // bytes; engines that need more are skipped
  double search_seconds = 0;                           // 0: the constants above

  std::size_t most() const { return tune == Tune::measure ? kMaxMeasured : 1; }
  double seconds() const {
    if (search_seconds > 0) return search_seconds;
    return tune == Tune::measure ? kMeasuredSeconds : kHeuristicSeconds;
  }

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

// False if MILLRACE_CUDA_RUNTIME_COMPILATION is 0.
bool compiles_by_environment();

}  // namespace millrace::cuda
