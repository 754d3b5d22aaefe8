// Metrics that control a run: when it ends early ([stop]), when it lowers its learning rate ([plateau]), and which weights it
// keeps as the best (run.best).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

struct GraphPlan;

// A metric that a graph reports: "validate.accuracy". For the main graph: that of an epoch.
struct FigurePlan {
  std::string graph, name;
  Position at;

  std::string text() const { return graph + "." + name; }
};

// By how much a value must exceed the best one to count as an improvement.
struct Threshold {
  double least = 0;
  bool is_relative = true;  // `least` is a share of the best value
};

// The keys of a Threshold, as written.
struct ThresholdParams {
  double threshold = 0;
  std::string threshold_mode = "relative";
};

// [stop], as written.
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

// [plateau], as written.
struct PlateauParams : ThresholdParams {
  std::string figure;
  std::int64_t patience = 5;  // passes
  double factor = 0.1, min_factor = 0;
  std::int64_t cooldown = 0;  // passes

  static void describe(ParamSet<PlateauParams>& set);
};

struct PlateauPlan {
  std::optional<FigurePlan> figure;  // empty: no [plateau]
  std::uint64_t patience = 0;        // passes of figure->graph without a better value
  double factor = 1;                 // then multiplies the learning rate
  double min_factor = 0;             // lower limit for the product of all factors
  std::uint64_t cooldown = 0;        // passes after a lowered rate that do not count
  Threshold threshold = {};
};

// `plateau`: the table, or null. Mistakes go to `errors`.
PlateauPlan plan_plateau(const Value* plateau, const std::vector<GraphPlan>& graphs, Diagnostics& errors);

// `stop`: the table, or null. Mistakes go to `errors`.
StopPlan plan_stop(const Value* stop, const std::vector<GraphPlan>& graphs, Diagnostics& errors);

// `value`: the text "graph.figure", under the key `key`. Empty after a mistake, which is in `errors`. A graph's metrics are known
// only once its loss is made: prepare() checks the name.
std::optional<FigurePlan> plan_figure(std::string_view key, const Value& value, const std::vector<GraphPlan>& graphs,
                                      Diagnostics& errors);

}  // namespace millrace
