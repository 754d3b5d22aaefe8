#include "prepare/stop_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "millrace/error.h"
#include "millrace/loss.h"
#include "report/class_figures.h"

namespace millrace {
namespace {

// A metric of a class without a sample would never come.
void require_samples(const FigurePlan& figure, const GraphBuild& build, std::size_t c) {
  const std::vector<std::uint64_t>& counts = build.data().class_counts;
  if (c >= counts.size() || counts[c] > 0) return;
  fail(ErrorKind::usage, "{}: [{}] has no image of class '{}', so '{}' would never be measured", to_string(figure.at),
       figure.graph, build.data().classes[c], figure.name);
}

}  // namespace

void require_figure(const FigurePlan& figure, const std::vector<std::unique_ptr<GraphBuild>>& builds) {
  for (const auto& build : builds) {
    if (build->plan().name != figure.graph) continue;
    std::vector<std::string> names = build->figures();
    if (std::find(names.begin(), names.end(), figure.name) != names.end()) return;
    const std::vector<std::string> classes = build->counted_classes();
    if (const auto c = class_of_figure(figure.name, classes)) return require_samples(figure, *build, *c);
    if (names.empty()) {
      fail(ErrorKind::usage, "{}: [{}] reports no figures; put 'metrics' into its flow", to_string(figure.at), figure.graph);
    }
    const std::string reported = fmt::format(
        "it reports {}{}", fmt::join(names, ", "),
        classes.empty() ? "" : fmt::format(", and recall, precision, f1 and iou of a class, as 'recall.{}'", classes[0]));
    std::ranges::move(names_of_class_figures(classes), std::back_inserter(names));
    const auto nearest = nearest_name(figure.name, names);
    fail(ErrorKind::usage, "{}: [{}] has no figure '{}'; {}{}", to_string(figure.at), figure.graph, figure.name,
         nearest ? fmt::format("nearest is '{}'; ", *nearest) : "", reported);
  }
}

}  // namespace millrace
