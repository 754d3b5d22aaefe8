// Metrics of one class, named "recall.cat", "precision.cat", "f1.cat" and "iou.cat".
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/detail/figure.h"
#include "millrace/metrics/class_matrix.h"

namespace millrace {

inline constexpr std::size_t kMaxReportedClasses = 20;  // with more classes, a run reports only requested metrics

// `names`: of the classes. Recall, precision and F1, and others that are `wanted`; with many classes only those. Classes that do
// not occur have none.
std::vector<Figure> class_figures(const ClassTotals& totals, const std::vector<std::string>& names,
                                  const std::set<std::string>& wanted);
// The class that a metric belongs to, if any.
std::optional<std::size_t> class_of_figure(const std::string& figure, const std::vector<std::string>& names);
std::vector<std::string> names_of_class_figures(const std::vector<std::string>& names);

}  // namespace millrace
