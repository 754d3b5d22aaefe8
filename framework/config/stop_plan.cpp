#include "config/stop_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/graph_plan.h"
#include "config/quantity.h"
#include "config/read_table.h"

namespace millrace {
namespace {

template <class Params>  // with a key `figure`
void describe_threshold(ParamSet<Params>& set) {
  set.add("threshold", &ThresholdParams::threshold)
      .range(0)
      .text("least change that counts as an improvement")
      .only_with("figure");
  set.add("threshold_mode", &ThresholdParams::threshold_mode)
      .choices({"relative", "absolute"})
      .text("relative: `threshold` is a share of the best value; absolute: an amount")
      .only_with("threshold");
}

Threshold threshold_of(const ThresholdParams& params) { return {params.threshold, params.threshold_mode == "relative"}; }

}  // namespace

void StopParams::describe(ParamSet<StopParams>& set) {
  set.add("figure", &StopParams::figure).text("\"validate.accuracy\": the run ends when this metric stops improving");
  set.add("patience", &StopParams::patience)
      .range(1)
      .unit("passes")
      .text("passes without improvement before the run ends")
      .only_with("figure");
  describe_threshold(set);
  set.add("max_time", &StopParams::max_time).text("\"2 hours\": time limit of the run");
  set.add("max_steps", &StopParams::max_steps)
      .range(0)
      .unit("steps")
      .text("step limit; schedules still cover the whole run. 0: no limit");
}

void PlateauParams::describe(ParamSet<PlateauParams>& set) {
  set.add("figure", &PlateauParams::figure)
      .required()
      .text("\"validate.loss\": lowers the learning rate when this metric stops improving, whatever the schedule");
  set.add("patience", &PlateauParams::patience)
      .range(1)
      .unit("passes")
      .text("passes without improvement before the rate falls; counting then restarts");
  set.add("factor", &PlateauParams::factor).range(0, 0.999999).text("factor on the rate each time");
  set.add("min_factor", &PlateauParams::min_factor).range(0, 0.999999).text("lowest share of the schedule's rate");
  set.add("cooldown", &PlateauParams::cooldown).range(0).unit("passes").text("passes after each reduction that are not counted");
  describe_threshold(set);
}

std::optional<FigurePlan> plan_figure(std::string_view key, const Value& value, const std::vector<GraphPlan>& graphs,
                                      Diagnostics& errors) {
  const std::string text = value.kind() == Value::Kind::text ? value.text() : "";
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == text.size()) {
    errors.add(value.at(),
               fmt::format("'{}' must be a graph and its figure, such as \"validate.accuracy\", found {}", key, found(value)));
    return std::nullopt;
  }
  FigurePlan figure{text.substr(0, dot), text.substr(dot + 1), value.at()};
  std::vector<std::string> names;
  for (const GraphPlan& graph : graphs) {
    if (!graph.when.never) names.push_back(graph.name);
    if (graph.name != figure.graph) continue;
    if (!graph.when.never) return figure;
    errors.add(value.at(),
               fmt::format("'{}': [{}] has every = \"never\", so the run never measures its figures", key, figure.graph));
    return std::nullopt;
  }
  std::string clause = nearest_clause(figure.graph, names);
  if (clause.empty() && !names.empty()) clause = fmt::format("; figures are those of '{}'", fmt::join(names, "' or '"));
  errors.add(value.at(), fmt::format("'{}': unknown graph '{}'{}", key, figure.graph, clause));
  return std::nullopt;
}

namespace {

// A metric that affects the rest of a run. One measured at the run's end would come too late.
std::optional<FigurePlan> plan_figure_of_many(const Value& table, const std::vector<GraphPlan>& graphs, Diagnostics& errors) {
  const Value& value = *table.find("figure");
  std::optional<FigurePlan> figure = plan_figure("figure", value, graphs, errors);
  const auto is_late = [&](const GraphPlan& graph) { return graph.name == figure->graph && graph.every == "end"; };
  if (!figure || std::none_of(graphs.begin(), graphs.end(), is_late)) return figure;
  errors.add(value.at(), fmt::format("'figure': [{}] has every = \"end\", when nothing is left to end or to slow down; give it "
                                     "every = \"epoch\"",
                                     figure->graph));
  return std::nullopt;
}

}  // namespace

PlateauPlan plan_plateau(const Value* plateau, const std::vector<GraphPlan>& graphs, Diagnostics& errors) {
  PlateauPlan plan;
  const auto params = plateau ? read_table<PlateauParams>(*plateau, "[plateau]", errors) : std::nullopt;
  if (!params) return plan;
  plan.patience = static_cast<std::uint64_t>(params->patience);
  plan.factor = params->factor;
  plan.min_factor = params->min_factor;
  plan.cooldown = static_cast<std::uint64_t>(params->cooldown);
  plan.threshold = threshold_of(*params);
  plan.figure = plan_figure_of_many(*plateau, graphs, errors);
  return plan;
}

StopPlan plan_stop(const Value* stop, const std::vector<GraphPlan>& graphs, Diagnostics& errors) {
  StopPlan plan;
  const auto params = stop ? read_table<StopParams>(*stop, "[stop]", errors) : std::nullopt;
  if (!params) return plan;
  plan.patience = static_cast<std::uint64_t>(params->patience);
  plan.threshold = threshold_of(*params);
  plan.max_steps = static_cast<std::uint64_t>(params->max_steps);
  if (stop->find("figure")) plan.figure = plan_figure_of_many(*stop, graphs, errors);
  const bool is_empty = stop->table().empty() && errors.empty();  // a misplaced key was removed
  if (is_empty) errors.add(stop->at(), "[stop] has no effect: give it 'figure', 'max_time' or 'max_steps'");
  if (const Value* time = stop->find("max_time")) {
    std::string hint;
    if (const auto seconds = parse_duration(time->text(), hint)) {
      plan.max_seconds = *seconds;
    } else {
      errors.add(time->at(), fmt::format("'max_time' must be {}, found {}{}", kDurationForms, found(*time), hint));
    }
  }
  return plan;
}

}  // namespace millrace
