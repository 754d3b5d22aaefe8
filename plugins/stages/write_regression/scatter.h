// Plots predicted numbers over the true ones.
#pragma once

#include <picture.h>
#include <plot.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

// Errors of the predictions of one number. Non-finite predictions are counted and left out of all other values.
struct ColumnErrors {
  std::size_t count = 0, not_finite = 0;  // `count`: finite ones
  double rmse = 0, mae = 0;
  std::optional<double> explained;  // R²: 1 - squared error / squared distance from the mean target; empty for equal targets

  static ColumnErrors of(const std::vector<drawing::Point>& pairs);  // x: target, y: prediction
};

// A panel for each number, at most kMostPanels: a dot for each sample, at most kMostDots, and a dashed line of equality.
// Non-finite values are left out.
drawing::Picture scatter(const std::vector<std::string>& names, const std::vector<std::vector<drawing::Point>>& pairs,
                         const std::string& heading);

inline constexpr std::size_t kMostPanels = 12, kMostDots = 2000;

}  // namespace millrace
