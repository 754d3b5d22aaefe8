// A pipeline as Graphviz source.
#include <fmt/format.h>

#include <algorithm>

#include "inspect.h"

namespace millrace {

namespace {

constexpr const char* kHead =
    "digraph pipeline {\n"
    "  rankdir=LR; bgcolor=white; nodesep=0.35; ranksep=0.55; pad=0.2; compound=true;\n"
    "  fontname=\"Helvetica,Arial,sans-serif\"; fontsize=14; fontcolor=\"#444444\"; labeljust=l;\n"
    "  node [shape=box, style=\"rounded,filled\", penwidth=1.2, margin=\"0.16,0.09\", fontname=\"Helvetica,Arial,sans-serif\", "
    "fontsize=13, fontcolor=\"#1f2933\"];\n"
    "  edge [color=\"#52606d\", arrowsize=0.7, penwidth=1.2, fontname=\"Helvetica,Arial,sans-serif\", fontsize=10, "
    "fontcolor=\"#52606d\"];\n";

struct Colours {
  const char *fill, *line;
};

// By a stage's domain: sources, samples, batches, devices, results.
Colours colours(const StageType& type) {
  if (type.role == StageType::Role::source) return {"#d9f0e3", "#2f855a"};
  if (type.role == StageType::Role::batcher) return {"#fdf0c8", "#b7791f"};
  if (type.per_replica || type.stepwise) return {"#fbdcd3", "#c05621"};
  if (type.outputs.empty()) return {"#e8e3f5", "#6b46c1"};
  return {"#d8e8f8", "#2b6cb0"};
}

std::string escaped(std::string_view text, bool html) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += html ? "&amp;" : "&"; break;
      case '<': out += html ? "&lt;" : "<"; break;
      case '>': out += html ? "&gt;" : ">"; break;
      case '"': out += html ? "&quot;" : "\\\""; break;
      case '\\': out += html ? "\\" : "\\\\"; break;
      default: out += c;
    }
  }
  return out;
}

class GraphDrawing {
 public:
  explicit GraphDrawing(const GraphPlan& graph) : graph_(graph) {}

  std::string draw() const {
    const std::string when = graph_.every == "end" ? "at the end"
                             : graph_.when.never   ? "only with --graph"
                                                   : "every " + graph_.every;
    const std::string title = graph_.every.empty() ? graph_.name : fmt::format("{}, {}", graph_.name, when);
    std::string out =
        fmt::format("  subgraph \"cluster_{0}\" {{\n    label=\"{1}\"; style=rounded; color=\"#cbd2d9\"; margin=14;\n",
                    escaped(graph_.name, false), escaped(title, false));
    for (std::size_t i = 0; i < graph_.stages.size(); ++i) out += node(static_cast<int>(i));
    for (const EdgePlan& edge : graph_.edges) {
      const Port& port = stage(edge.from_stage).type->outputs[static_cast<std::size_t>(edge.from_port)];
      out += fmt::format("    {} -> {} [label=\"{}\"];\n", id(edge.from_stage), id(edge.to_stage), escaped(port.payload, false));
    }
    return out + credits() + "  }\n";
  }

 private:
  const StagePlan& stage(int index) const { return graph_.stages[static_cast<std::size_t>(index)]; }
  std::string id(int index) const {
    return fmt::format("\"{}.{}\"", escaped(graph_.name, false), escaped(stage(index).name, false));
  }

  std::string node(int index) const {
    const StagePlan& plan = stage(index);
    const Colours colour = colours(*plan.type);
    std::string label = fmt::format("<b>{}</b>", escaped(plan.name, true));
    if (plan.name != plan.type->name) label += small(plan.type->name);
    if (plan.type->per_replica) label += small("one per replica");
    return fmt::format("    {} [label=<{}>, fillcolor=\"{}\", color=\"{}\"];\n", id(index), label, colour.fill, colour.line);
  }

  static std::string small(std::string_view text) {
    return fmt::format("<br/><font point-size=\"10\" color=\"#52606d\">{}</font>", escaped(text, true));
  }

  // The last stage that takes the payload; -1 if none does.
  int last_taker(std::string_view payload) const {
    int last = -1;
    for (const EdgePlan& edge : graph_.edges) {
      if (stage(edge.to_stage).type->inputs[static_cast<std::size_t>(edge.to_port)].payload == payload)
        last = std::max(last, edge.to_stage);
    }
    return last;
  }

  int first(bool (*is)(const StageType&)) const {
    const auto at =
        std::find_if(graph_.stages.begin(), graph_.stages.end(), [&](const StagePlan& plan) { return is(*plan.type); });
    return at == graph_.stages.end() ? -1 : static_cast<int>(at - graph_.stages.begin());
  }

  // Credits that flow back: batch buffers that have been read, and the step's token once all parameters are updated.
  std::string credits() const {
    const int source = first([](const StageType& type) { return type.role == StageType::Role::source; });
    const int stepwise = first([](const StageType& type) { return type.stepwise; });
    return credit(last_taker(payload::kBatch), source, "empty batches") +
           credit(last_taker(payload::kGradientBucket), stepwise, "step done");
  }

  std::string credit(int from, int to, const char* label) const {
    if (from < 0 || to < 0 || from <= to) return "";
    return fmt::format("    {} -> {} [label=\"{}\", style=dashed, color=\"#9aa5b1\", fontcolor=\"#7b8794\", constraint=false];\n",
                       id(from), id(to), label);
  }

  const GraphPlan& graph_;
};

}  // namespace

std::string draw_pipeline(const Pipeline& pipeline) {
  std::string out = kHead;
  // Graphviz puts the first one at the bottom.
  for (auto graph = pipeline.graphs.rbegin(); graph != pipeline.graphs.rend(); ++graph) out += GraphDrawing(*graph).draw();
  return out + "}\n";
}

}  // namespace millrace
