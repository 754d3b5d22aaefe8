#include "prepare/without_effect.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/secrets.h"
#include "config/difference.h"
#include "config/named_weights.h"

namespace millrace {
namespace {

// Passes of a graph after which the run can still change.
std::uint64_t passes_before_the_end(const GraphPlan& graph, const RunLength& run) {
  const std::uint64_t done = run.steps > 0 ? run.steps - 1 : 0;
  return graph.every.empty() ? done / run.steps_per_epoch : graph.when.times(done, run.steps_per_epoch);
}

}  // namespace

std::vector<std::string> without_effect(const Pipeline& pipeline, const RunLength& run) {
  std::vector<std::string> said;
  const auto say_untrained = [&](const std::string& key, const std::string& what) {
    said.push_back(
        fmt::format("{}: {} has no effect: [{}] does not train", pipeline.place_of(key), what, pipeline.graphs.front().name));
  };
  if (!run.trains) {
    for (const std::string table : {"stop", "plateau", "checkpoint"}) {
      if (pipeline.resolved.find(table) != nullptr) say_untrained(table, "[" + table + "]");
    }
    if (pipeline.best) say_untrained("run.best", "run.best");
    return said;
  }
  if (run.steps == 0) {
    said.push_back(fmt::format("{}: run.epochs = {:g} trains nothing: the run has no step; take 1 or more",
                               pipeline.place_of("run.epochs"), pipeline.run.epochs));
  }
  if (pipeline.best && pipeline.run.folder.empty()) {
    said.push_back(fmt::format("{}: run.best has no effect: run.folder = \"\" writes nothing", pipeline.place_of("run.best")));
  }
  const auto look_at = [&](const char* table, const std::optional<FigurePlan>& figure, std::uint64_t patience) {
    if (!figure) return;
    const std::uint64_t passes = passes_before_the_end(*pipeline.graph(figure->graph), run);
    if (passes > patience) return;  // the first pass sets the value to improve on
    said.push_back(fmt::format(
        "{}: figure of [{}] has no effect: patience = {} takes {} passes of [{}] before the last step, but the run has {}",
        pipeline.place_of(fmt::format("{}.patience", table)), table, patience, patience + 1, figure->graph, passes));
  };
  look_at("stop", pipeline.stop.figure, pipeline.stop.patience);
  look_at("plateau", pipeline.plateau.figure, pipeline.plateau.patience);
  return said;
}

std::string weights_without_effect(const Pipeline& pipeline, const Value& begun) {
  const Value *const now = pipeline.resolved.find("network"), *const then = begun.find("network");
  if (now == nullptr || then == nullptr) return {};
  const std::string were = named_weights(begun), are = named_weights(pipeline.resolved);
  const auto name_of = [](const std::string& file) { return std::filesystem::path(file).filename(); };
  for (const char* key : kKeysOfWeights) {
    const Value* const said = now->find(key);
    if (said == nullptr || std::string_view(key) == "sha256") continue;
    const Value* const before = then->find(key);
    const bool is_moved = std::string_view(key) == "weights" && name_of(are) == name_of(were);  // only the folder changed
    if (is_moved || (before != nullptr && document_differences(key, *before, *said).empty())) continue;
    const std::string place = fmt::format("network.{}", key);
    return fmt::format("{}: {} has no effect: the run resumes with the weights of its checkpoint, after it began with {}",
                       pipeline.place_of(place), place, were.empty() ? "new values" : fmt::format("'{}'", without_secrets(were)));
  }
  return {};
}

}  // namespace millrace
