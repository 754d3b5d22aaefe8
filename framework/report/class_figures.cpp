#include "report/class_figures.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace millrace {
namespace {

struct MetricKind {
  std::string_view prefix;
  double (ClassTotals::*value)(std::size_t) const;
  bool is_usual;
};
constexpr std::array<MetricKind, 4> kKinds = {{{"recall.", &ClassTotals::accuracy, true},
                                         {"precision.", &ClassTotals::precision, true},
                                         {"f1.", &ClassTotals::f1, true},
                                         {"iou.", &ClassTotals::iou, false}}};

std::string name_of(const MetricKind& kind, const std::string& name) { return std::string(kind.prefix) + name; }

}  // namespace

std::vector<Figure> class_figures(const ClassTotals& totals, const std::vector<std::string>& names,
                                  const std::set<std::string>& wanted) {
  std::vector<Figure> figures;
  const bool is_small = names.size() <= kMaxReportedClasses;
  if (!is_small && wanted.empty()) return figures;
  for (std::size_t c = 0; c < std::min(names.size(), totals.classes()); ++c) {
    if (totals.occurring(c) == 0) continue;
    for (const MetricKind& kind : kKinds) {
      std::string name = name_of(kind, names[c]);
      if (!(is_small && kind.is_usual) && !wanted.contains(name)) continue;
      figures.push_back({std::move(name), (totals.*kind.value)(c), true, true, true});
    }
  }
  return figures;
}

std::optional<std::size_t> class_of_figure(const std::string& figure, const std::vector<std::string>& names) {
  for (const MetricKind& kind : kKinds) {
    if (!figure.starts_with(kind.prefix)) continue;
    const auto found = std::ranges::find(names, std::string_view(figure).substr(kind.prefix.size()));
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  return std::nullopt;
}

std::vector<std::string> names_of_class_figures(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    for (const MetricKind& kind : kKinds) all.push_back(name_of(kind, name));
  }
  return all;
}

}  // namespace millrace
