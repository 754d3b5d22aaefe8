// The figures that a run looks at: to end before its last step, to lower its learning rate, and to keep its best weights: [stop],
// [plateau] and run.best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

struct GraphPlan;

// A figure that a graph reports: "validate.accuracy". Of the main graph: that of an epoch.
struct FigurePlan {
  std::string graph, name;
  Position at;

  std::string text() const { return graph + "." + name; }
};

// How much better a value must be than the best one to count as an improvement.
struct Threshold {
  double least = 0;
  bool is_relative = true;  // `least` is a share of the best value
};

// The keys of a Threshold, as they are written.
struct ThresholdParams {
  double threshold = 0;
  std::string threshold_mode = "relative";
};

// [stop], as it is written.
struct StopParams : ThresholdParams {
  std::string figure;
  std::int64_t patience = 5;  // passes
  std::string max_time;
  std::int64_t max_steps = 0;

  static void describe(ParamSet<StopParams>& set);
};

struct StopPlan {
  std::optional<FigurePlan> figure;
  std::uint64_t patience = 0;  // passes of figure->graph without a better value
  Threshold threshold = {};
  double max_seconds = 0;       // 0: no limit
  std::uint64_t max_steps = 0;  // 0: no limit
};

// [plateau], as it is written.
struct PlateauParams : ThresholdParams {
  std::string figure;
  std::int64_t patience = 5;  // passes
  double factor = 0.1, min_factor = 0;
  std::int64_t cooldown = 0;  // passes

  static void describe(ParamSet<PlateauParams>& set);
};

struct PlateauPlan {
  std::optional<FigurePlan> figure;  // nothing: no [plateau]
  std::uint64_t patience = 0;        // passes of figure->graph without a better value
  double factor = 1;                 // that the learning rate is multiplied by then
  double min_factor = 0;             // of all these factors together
  std::uint64_t cooldown = 0;        // passes after a lower rate that are not counted
  Threshold threshold = {};
};

// `plateau`: the table, or null. Mistakes go to `errors`.
PlateauPlan plan_plateau(const Value* plateau, const std::vector<GraphPlan>& graphs, Diagnostics& errors);

// `stop`: the table, or null. Mistakes go to `errors`.
StopPlan plan_stop(const Value* stop, const std::vector<GraphPlan>& graphs, Diagnostics& errors);

// `value`: the text "graph.figure", under the key `key`. Nothing for a mistake, of which `errors` is told. Which figures a graph
// has is known when its loss is made: prepare() checks the name.
std::optional<FigurePlan> plan_figure(std::string_view key, const Value& value, const std::vector<GraphPlan>& graphs,
                                      Diagnostics& errors);

}  // namespace millrace
