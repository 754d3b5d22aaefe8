#include <fmt/format.h>

#include "common/text_table.h"
#include "inspect.h"
#include "millrace/loss.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"

namespace millrace {

namespace {

std::string limits(const ParamInfo& info) {
  std::string out;
  if (info.low && info.high) {
    out = fmt::format("{} to {}", *info.low, *info.high);
  } else if (info.low) {
    out = fmt::format(">= {}", *info.low);
  } else if (info.high) {
    out = fmt::format("<= {}", *info.high);
  }
  if (!info.choices.empty()) out += fmt::format("{}{}", out.empty() ? "" : " | ", fmt::join(info.choices, " | "));
  return info.unit.empty() ? out : out + (out.empty() ? "" : " ") + info.unit;
}

// Members of a table are indented below it. `defaults`: of the containing table.
void add_params(TextTable& table, const std::vector<ParamInfo>& params, const Value& defaults, const std::string& indent) {
  for (const ParamInfo& info : params) {
    const Value* preset = defaults.find(info.name);
    std::string fallback = info.required ? "required" : "";
    if (!info.required && preset && info.type != "table") fallback = to_toml(*preset);
    table.row({indent + info.name, info.type, limits(info), fallback, info.text});
    add_params(table, info.members, preset && info.type == "table" ? *preset : info.member_defaults, indent + "  ");
  }
}

std::string params_text(const std::vector<ParamInfo>& params, const Value& defaults) {
  if (params.empty()) return "\nIt takes no parameters.\n";
  TextTable table({"parameter", "type", "range", "default", ""});
  add_params(table, params, defaults, "");
  return fmt::format("\n{}", table.text());
}

std::string ports(const std::vector<Port>& ports) {
  std::vector<std::string> texts;
  for (const Port& port : ports) texts.push_back(fmt::format("{} ({})", port.payload, port.name));
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, ", "));
}

const char* how_it_runs(const StageType& type) {
  if (type.role == StageType::Role::source) return "read ahead by I/O threads";
  if (type.per_replica)
    return type.stepwise ? "one for each replica, step by step" : "one for each replica, one packet at a time";
  if (type.stepwise) return "step by step";
  return type.concurrency == Concurrency::serial ? "one packet at a time" : "several packets at once";
}

}  // namespace

std::string describe_stage(const StageType& type) {
  TextTable facts({"", ""});
  facts.row({"plugin", type.plugin.empty() ? "-" : type.plugin});
  facts.row({"takes", ports(type.inputs)});
  facts.row({"gives", ports(type.outputs)});
  facts.row({"runs", how_it_runs(type)});
  const char* more = type.takes_optimizer ? "\nIt also takes the parameters of its optimizer.\n" : "";
  return fmt::format("{}: {}\n", type.name, type.text) + facts.text() + params_text(type.params, type.defaults) + more;
}

std::string describe_layer(const LayerType& type) {
  const std::string inputs =
      type.least_inputs == type.most_inputs ? fmt::format("{}", type.least_inputs) : fmt::format("{} or more", type.least_inputs);
  TextTable facts({"", ""});
  facts.row({"plugin", type.plugin.empty() ? "-" : type.plugin});
  facts.row({"inputs", inputs});
  return fmt::format("{}: {}\n  a layer type, for a network's key 'op'\n", type.name, type.text) + facts.text() +
         params_text(type.params, type.defaults);
}

std::string describe_optimizer(const OptimizerType& type) {
  std::vector<std::string> states;
  static constexpr const char* kShapes[] = {"", " of rows", " of columns", " of the whole"};
  for (const OptimizerState& state : type.states) states.push_back(state.name + kShapes[static_cast<int>(state.shape)]);
  TextTable facts({"", ""});
  facts.row({"plugin", type.plugin.empty() ? "-" : type.plugin});
  facts.row({"keeps", states.empty() ? "nothing" : fmt::format("{}, at most", fmt::join(states, ", "))});
  static constexpr const char* kNeeds[] = {"each element alone", "the norms of each parameter", "parameters that are matrices"};
  facts.row({"needs", kNeeds[static_cast<int>(type.scope)]});
  return fmt::format("{}: {}\n  an optimizer, for a stage's key 'type'\n", type.name, type.text) + facts.text() +
         params_text(type.params, type.defaults);
}

std::string describe_observer(const ObserverType& type) {
  TextTable facts({"", ""});
  facts.row({"plugin", type.plugin.empty() ? "-" : type.plugin});
  facts.row({"listens", type.by_default ? fmt::format("by default; observe.{} = false leaves it out", type.name)
                                        : fmt::format("where the file has [observe.{}]", type.name)});
  facts.row({"when it is slow", type.delivery == Delivery::all ? "the run waits for it" : "steps and ticks are left out"});
  return fmt::format("{}: {}\n  an observer of the run\n", type.name, type.text) + facts.text() +
         params_text(type.params, type.defaults);
}

std::string describe_loss(const LossType& type) {
  static constexpr const char* kTargets[] = {"a class of each image", "a class of each pixel", "numbers or target images"};
  TextTable facts({"", ""});
  facts.row({"plugin", type.plugin.empty() ? "-" : type.plugin});
  facts.row({"needs", kTargets[static_cast<int>(type.info->target)]});
  TextTable figures({"figure", "better", ""});
  for (const LossFigure& figure : type.info->figures) {
    figures.row({figure.name, figure.better == LossFigure::Better::higher ? "higher" : "lower", figure.text});
  }
  return fmt::format("{}: {}\n  a loss, for a stage's key 'loss'\n", type.name, type.text) + facts.text() +
         params_text(type.params, type.defaults) + "\n" + figures.text();
}

}  // namespace millrace
