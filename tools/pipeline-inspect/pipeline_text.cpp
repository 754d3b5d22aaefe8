#include <fmt/format.h>

#include <fstream>

#include "common/text_table.h"
#include "inspect.h"
#include "millrace/util/text.h"
#include "toml/document.h"
#include "util/secrets.h"

namespace millrace {

namespace {

const StagePlan& stage(const GraphPlan& graph, int index) { return graph.stages[static_cast<std::size_t>(index)]; }

std::string inputs(const GraphPlan& graph, int index) {
  std::vector<std::string> texts;
  for (const EdgePlan& edge : graph.edges) {
    if (edge.to_stage != index) continue;
    const StagePlan& from = stage(graph, edge.from_stage);
    texts.push_back(fmt::format("{} from {}", from.type->outputs[static_cast<std::size_t>(edge.from_port)].payload, from.name));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// A stage's table on one line, without defaults.
std::string settings(const Value& table) {
  std::vector<std::string> texts;
  for (const Member& member : table.table()) {
    Value inner;
    inner.set(member.key, member.value);
    std::string text = to_toml(Value(Array{inner}));  // "[{ key = value }]"
    texts.push_back(text.substr(3, text.size() - 6));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string describe_graph(const GraphPlan& graph) {
  TextTable table({"stage", "type", "takes", "parameters"});
  for (std::size_t i = 0; i < graph.stages.size(); ++i) {
    const StagePlan& plan = graph.stages[i];
    table.row({plan.name, plan.type->name, inputs(graph, static_cast<int>(i)), settings(plan.table)});
  }
  const std::string when = graph.every.empty()    ? ""
                           : graph.every == "end" ? ", at the end"
                           : graph.when.never     ? ", only with --graph"
                                                  : ", every " + graph.every;
  return fmt::format("\n[{}]{}\n", graph.name, when) + table.text();
}

// "new     fc: 2 parameters, 650 values"
std::string covered(const char* what, const std::vector<std::string>& patterns, const Network& network) {
  if (patterns.empty()) return "";
  std::size_t count = 0;
  std::uint64_t values = 0;
  for (const Parameter& parameter : network.parameters) {
    if (parameter.statistic || !covers_any(patterns, parameter.name)) continue;
    ++count;
    values += static_cast<std::uint64_t>(parameter.shape.elements());
  }
  return fmt::format("{:<8}{}: {} parameters, {} values\n", what, fmt::join(patterns, ", "), count, grouped(values));
}

// The comment lines at the beginning of a file.
std::string first_comment(const std::string& file) {
  std::ifstream in(file);
  std::string text;
  for (std::string line; std::getline(in, line) && line.starts_with('#');) text += line.substr(std::min<std::size_t>(line.size(), 2)) + '\n';
  return text;
}

}  // namespace

std::string describe_base(const std::string& file) {
  Diagnostics errors;
  const std::optional<Value> document = read_document(file, {}, errors);
  errors.throw_if_any();
  TextTable variables({"variable", "is"});
  for (const Member& table : document->table()) {
    if (table.value.kind() != Value::Kind::table || table.value.find("flow") != nullptr) continue;
    for (const Member& member : table.value.table())
      variables.row({table.key + "." + member.key, member.value.kind() == Value::Kind::text ? member.value.text() : to_toml(member.value)});
  }
  return first_comment(file) + '\n' + variables.text() + '\n';
}

std::string describe_pipeline(const Pipeline& pipeline) {
  const RunParams& run = pipeline.run;
  std::string out = fmt::format("{}: run '{}', {} epochs, seed {}, devices {}, precision {}\n", pipeline.file, run.name,
                                run.epochs, run.seed, run.devices, run.precision);
  if (pipeline.network) {
    const Network& network = *pipeline.network;
    const NetworkParams& params = pipeline.network_params;
    out += fmt::format("network {0}: {1} layers, {2} -> {3}; pipeline-inspect {0} lists them\n", params.use,
                       network.layers.size(), to_string(network.input), to_string(network.output()));
    if (!params.weights.file.empty()) {
      const std::string& inside = params.weights.inside;
      out += fmt::format("weights {}{}\n", without_secrets(params.weights.file),
                         inside.empty() ? "" : ", inside '" + shown(inside) + "'");
    }
    out += covered("new", params.fresh, network) + covered("frozen", params.freeze, network);
  }
  for (const GraphPlan& graph : pipeline.graphs) out += describe_graph(graph);
  return out;
}

}  // namespace millrace
