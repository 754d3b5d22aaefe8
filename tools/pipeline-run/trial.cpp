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

std::vector<std::string> Trial::common_overrides(const Pipeline& pipeline) const {
  std::vector<std::string> overrides = {fmt::format("run.epochs={}", most_steps()),  // of one step each, at least
                                        "run.log_every=1", "run.folder="};
  for (const ObserverPlan& observer : pipeline.observers) {
    if (observer.name == "console") overrides.emplace_back("observe.console.quiet=true");
  }
  const GraphPlan& graph = pipeline.graphs.front();
  for (const StagePlan& stage : graph.stages) {  // what is left of an epoch must not be taken for all of it
    const bool caches = stage.type->plugin == "cache" && stage.table.find("file");
    if (caches) overrides.push_back(fmt::format("{}.{}.file=", graph.name, stage.name));
  }
  return overrides;
}

// An epoch may have one step here.
void Trial::shorten(Pipeline& pipeline) const {
  pipeline.stop = {};
  pipeline.plateau = {};
  pipeline.checkpoint = {};
  pipeline.best.reset();
  for (StagePlan& stage : pipeline.graphs.front().stages) {
    Value* const groups = stage.type->takes_rule ? stage.table.find("groups") : nullptr;
    if (groups == nullptr) continue;
    for (Value& group : groups->array()) group.erase("until_epoch");
  }
}

std::optional<double> Trial::loss_of(const StepEvent& event) {
  const auto found =
      std::find_if(event.figures.begin(), event.figures.end(), [](const Figure& figure) { return figure.name == "loss"; });
  if (found == event.figures.end()) return std::nullopt;
  return found->value;
}

}  // namespace millrace
