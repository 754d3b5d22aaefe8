#include "trial.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "prepare/graph_build.h"
#include "report/number_watch.h"

namespace millrace {

const GraphPlan& Trial::main_graph(const Pipeline& pipeline, const char* option) {
  const GraphPlan& graph = pipeline.graphs.front();
  if (!has_reports(graph)) fail(ErrorKind::usage, "{}: [{}] reports no loss; put 'metrics' into its flow", option, graph.name);
  return graph;
}

std::vector<std::string> Trial::common_overrides(const Pipeline& pipeline) const {
  std::vector<std::string> overrides = {fmt::format("run.epochs={}", most_steps()),  // with at least one step each
                                        "run.log_every=1", "run.folder="};
  for (const ObserverPlan& observer : pipeline.observers) {
    if (observer.name == "console") overrides.emplace_back("observe.console.quiet=true");
  }
  const GraphPlan& graph = pipeline.graphs.front();
  for (const StagePlan& stage : graph.stages) {  // the rest of an epoch must not pass for all of it
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
    Value* const groups = stage.type->takes_optimizer ? stage.table.find("groups") : nullptr;
    if (groups == nullptr) continue;
    for (Value& group : groups->array()) group.erase("until_epoch");
  }
}

void Trial::show_progress(const Pipeline& pipeline) {
  for (const ObserverPlan& observer : pipeline.observers) {
    const Value* const quiet = observer.table.find("quiet");
    if (observer.name != "console" || (quiet && quiet->boolean())) continue;
    progress_.emplace(TrialProgress::of_standard_error());
  }
}

void Trial::tick(const TickEvent& event) {
  if (!progress_ || !progress_->due()) return;
  progress_->show(fmt::format("{}: step {}/{}  {}", event.graph, event.step, most_steps(), progress()));
}

std::shared_ptr<const Loss> Trial::loss_in(const PreparedRun& prepared) {
  CompileRequest request;
  prepared.main().add_requests(request);
  return request.losses.empty() ? nullptr : request.losses.front().loss;
}

void Trial::require_classes(const PreparedRun& prepared, const char* option) {
  const GraphBuild& main = prepared.main();
  const std::shared_ptr<const Loss> loss = loss_in(prepared);
  if (!loss || loss->info().target != LossTarget::labels || main.data().classes.size() != 1) return;
  fail(ErrorKind::usage,
       "{}: [{}] reads images of one class, '{}': a network learns that without looking at them, and nothing would be shown",
       option, main.plan().name, main.data().classes.front());
}

std::string Trial::text_of_broken_start(double loss) {
  return WrongNumber{0, "loss", loss}.text() + ", before anything was learned. Look at the images, the weights and the loss\n";
}

std::optional<double> Trial::loss_of(const StepEvent& event) {
  const auto found =
      std::find_if(event.figures.begin(), event.figures.end(), [](const Figure& figure) { return figure.name == "loss"; });
  if (found == event.figures.end()) return std::nullopt;
  return found->value;
}

}  // namespace millrace
