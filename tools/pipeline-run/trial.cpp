#include "trial.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "run/build.h"

namespace millrace {

const GraphPlan& Trial::main_graph(const Pipeline& pipeline, const char* option) {
  const GraphPlan& graph = pipeline.graphs.front();
  if (!has_reports(graph)) fail(ErrorKind::usage, "{}: [{}] reports no loss; put 'metrics' into its flow", option, graph.name);
  return graph;
}

std::vector<std::string> Trial::common_overrides() const {
  return {fmt::format("run.epochs={}", most_steps()),  // of one step each, at least
          "run.log_every=1", "run.folder=", "observe.console.quiet=true"};
}

std::optional<double> Trial::loss_of(const StepEvent& event) {
  const auto found =
      std::find_if(event.figures.begin(), event.figures.end(), [](const Figure& figure) { return figure.name == "loss"; });
  if (found == event.figures.end()) return std::nullopt;
  return found->value;
}

}  // namespace millrace
