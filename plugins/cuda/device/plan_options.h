// What may be chosen about how libraries compute.
#pragma once

#include <cstddef>

#include "millrace/backend.h"

namespace millrace::cuda {

struct PlanOptions {
  Tune tune = Tune::heuristic;
  bool deterministic = false;                          // only engines whose results are the same to the bit in every run
  std::size_t workspace_limit = std::size_t{1} << 30;  // bytes; engines that need more are passed over

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

// With Tune::measure so many engines are timed; cuDNN lists the promising ones first.
inline constexpr std::size_t kMostMeasured = 10;

}  // namespace millrace::cuda
