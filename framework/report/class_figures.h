// Metrics of one class, by its name: "recall.cat", "precision.cat", "f1.cat" and "iou.cat".
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/detail/figure.h"
#include "millrace/metrics/class_matrix.h"

namespace millrace {

inline constexpr std::size_t kMostReportedClasses = 20;  // of more, a run reports what it is asked for alone

// `names`: of the classes. Recall, precision and F1, and the others that are `wanted`; of many classes nothing else. A class that
// does not occur has none.
std::vector<Figure> class_figures(const ClassTotals& totals, const std::vector<std::string>& names,
                                  const std::set<std::string>& wanted);
// The class that a metric is of; nothing where it is of none.
std::optional<std::size_t> class_of_figure(const std::string& figure, const std::vector<std::string>& names);
std::vector<std::string> names_of_class_figures(const std::vector<std::string>& names);

}  // namespace millrace
