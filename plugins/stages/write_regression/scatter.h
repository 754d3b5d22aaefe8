// Predicted numbers over the true ones.
#pragma once

#include <picture.h>
#include <plot.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

// How far the predictions of one number are from its targets. Those that are not finite are counted, and stand in no other
// figure.
struct ColumnErrors {
  std::size_t count = 0, not_finite = 0;  // `count`: of those that are
  double rmse = 0, mae = 0;
  std::optional<double> explained;  // R²: 1 - squared error / squared distance from the mean target; nothing: all are the same

  static ColumnErrors of(const std::vector<drawing::Point>& pairs);  // x: target, y: prediction
};

// A panel for each number, of at most kMostPanels of them: a dot for each sample, of at most kMostDots, and a dashed line where
// both are the same. What is not finite is left out.
drawing::Picture scatter(const std::vector<std::string>& names, const std::vector<std::vector<drawing::Point>>& pairs,
                         const std::string& heading);

inline constexpr std::size_t kMostPanels = 12, kMostDots = 2000;

}  // namespace millrace
