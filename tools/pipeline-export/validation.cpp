#include "validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "millrace/error.h"
#include "millrace/observer.h"
#include "run/runner.h"

namespace millrace {
namespace {

class FigureWatch final : public RunObserver {
 public:
  void epoch(const EpochEvent& event) override { figures = event.figures; }
  void pass(const PassEvent& event) override { figures = event.figures; }

  std::vector<Figure> figures;
};

Pipeline pipeline_of(const Model& model, const ValidationRequest& request, const Registry& registry) {
  const std::string file = (std::filesystem::path(model.run) / "pipeline.toml").string();
  LoadOptions load;
  load.other_weights = true;
  std::vector<std::string> overrides = request.overrides;
  const Pipeline as_written = load_pipeline(file, overrides, registry, load);
  const std::string& name = model.recipe.graph;
  const GraphPlan* const graph = as_written.graph(name);
  if (graph == nullptr || model.recipe.predict.empty()) {
    fail(ErrorKind::usage, "'{}' has no validation graph, so there is nothing to compare with: export with --unproven", file);
  }
  std::vector<std::string> flow;
  bool is_computed = false;
  for (const StagePlan& stage : graph->stages) {
    if (request.without_noise && stage.type->recipe_effect == RecipeEffect::spoils) continue;
    if (!is_computed || stage.type->name == "metrics") flow.push_back(stage.name);
    is_computed = is_computed || stage.name == model.recipe.predict.back().name;
  }
  if (!request.sink.empty()) flow.push_back(request.sink);
  overrides.push_back(fmt::format("{}.flow=[\"{}\"]", name, fmt::join(flow, "\", \"")));
  for (const std::string& each : request.parameters) overrides.push_back(fmt::format("{}.{}.{}", name, request.sink, each));
  for (const StagePlan& stage : graph->stages) {
    if (request.most_in_batch > 0 && stage.type->role == StageType::Role::batcher)
      overrides.push_back(fmt::format("{}.{}.size={}", name, stage.name, request.most_in_batch));
  }
  overrides.emplace_back("run.precision=\"fp32\"");
  overrides.emplace_back("run.folder=\"\"");
  overrides.emplace_back("network.preprocessing=\"mine\"");  // images may come without the noise of the validation
  if (request.network) overrides.emplace_back("run.devices=\"cpu\"");
  Pipeline pipeline = load_pipeline(file, overrides, registry, load);
  if (request.network) pipeline.network = request.network;
  pipeline.observers.clear();
  pipeline.best.reset();  // these may name metrics of stages that are left out
  pipeline.stop.figure.reset();
  pipeline.plateau.figure.reset();
  pipeline.checkpoint.best.reset();
  return pipeline;
}

}  // namespace

std::optional<std::vector<Figure>> validate(const Model& model, const ValidationRequest& request, const Registry& registry) {
  if (model.run.empty()) {
    fail(
        ErrorKind::usage,
        "'{}' is not in the folder of its run, and the comparison repeats that run's validation: name the folder, or export with "
        "--unproven",
        model.weights_file);
  }
  RunOptions run;
  run.graph = model.recipe.graph;
  run.weights = request.weights.empty() ? model.weights_file : request.weights;
  run.hooks.stop_signal = request.stop_signal;
  const auto watch = std::make_shared<FigureWatch>();
  run.hooks.observer = watch;
  run_with_rollbacks(pipeline_of(model, request, registry), registry, run);
  if (request.stop_signal != nullptr && *request.stop_signal != 0) return std::nullopt;
  return watch->figures;
}

}  // namespace millrace
