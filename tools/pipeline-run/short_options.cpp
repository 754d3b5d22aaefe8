#include "short_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "common/arguments.h"
#include "millrace/error.h"

namespace millrace {
namespace {

void require_number(const char* option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= 0) return;
  fail(ErrorKind::usage, "{}: expected a number of at least 0, found '{}'", option, text);
}

void require_batch(const std::string& text) {
  if (text != "auto") integer("--batch", text, 1, INT32_MAX);
}

// The only stage of the graph that satisfies `is_meant`. `what` (its property) and `key` (changed by the option) are for
// messages.
const StagePlan& only_stage(const GraphPlan& graph, const char* option, const char* what, const char* key,
                            bool (*is_meant)(const StagePlan&)) {
  std::vector<const StagePlan*> found;
  for (const StagePlan& stage : graph.stages) {
    if (is_meant(stage)) found.push_back(&stage);
  }
  if (found.size() == 1) return *found.front();
  if (found.empty()) fail(ErrorKind::usage, "{}: [{}] has no stage with a {}", option, graph.name, what);
  std::vector<std::string> choices;
  for (const StagePlan* stage : found) choices.push_back(fmt::format("--set {}.{}.{}=VALUE", graph.name, stage->name, key));
  fail(ErrorKind::usage, "{}: [{}] has {} stages with a {}: write {}", option, graph.name, found.size(), what,
       fmt::join(choices, " or "));
}

}  // namespace

std::string ShortOptions::first() const {
  if (!epochs.empty()) return "--epochs";
  if (!batch.empty()) return "--batch";
  if (!rate.empty()) return "--lr";
  return name.empty() ? "" : "--name";
}

std::vector<std::string> overrides_of(const ShortOptions& options, const GraphPlan& graph) {
  std::vector<std::string> overrides;
  if (!options.epochs.empty()) {
    require_number("--epochs", options.epochs);
    overrides.push_back("run.epochs=" + options.epochs);
  }
  if (!options.name.empty()) overrides.push_back("run.name=" + to_toml(Value(options.name)));
  if (!options.batch.empty()) {
    require_batch(options.batch);
    const StagePlan& batcher = only_stage(graph, "--batch", "batch size", "size",
                                          [](const StagePlan& stage) { return stage.type->role == StageType::Role::batcher; });
    overrides.push_back(fmt::format("{}.{}.size={}", graph.name, batcher.name, options.batch));
  }
  if (!options.rate.empty()) {
    require_number("--lr", options.rate);
    const StagePlan& optimizer = only_stage(graph, "--lr", "learning rate", "learning_rate",
                                            [](const StagePlan& stage) { return stage.type->takes_optimizer; });
    const Value* const rate = optimizer.table.find("learning_rate");
    const char* const inside = rate != nullptr && rate->kind() == Value::Kind::table ? ".initial" : "";
    overrides.push_back(fmt::format("{}.{}.learning_rate{}={}", graph.name, optimizer.name, inside, options.rate));
  }
  return overrides;
}

}  // namespace millrace
