// Connects outputs to inputs.
#include <fmt/format.h>

#include <algorithm>

#include "config/graph_plan.h"
#include "millrace/backend/backend.h"

namespace millrace {

namespace {

int find_port(const std::vector<Port>& ports, std::string_view payload) {
  const auto at = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.payload == payload; });
  return at == ports.end() ? -1 : static_cast<int>(at - ports.begin());
}

std::string list_outputs(const StagePlan& stage) {
  std::vector<std::string> payloads;
  for (const Port& port : stage.type->outputs) payloads.push_back(port.payload);
  return payloads.empty() ? fmt::format("'{}' gives nothing", stage.name)
                          : fmt::format("'{}' gives {}", stage.name, fmt::join(payloads, " and "));
}

class Connector {
 public:
  Connector(GraphPlan& plan, const Registry& registry, Diagnostics& errors) : plan_(plan), registry_(registry), errors_(errors) {}

  void stage(int index, const Value* from) {
    const StagePlan& to = at(index);
    if (!to.type) return;
    const int inputs = static_cast<int>(to.type->inputs.size());
    if (!from) {
      for (int port = 0; port < inputs; ++port) nearest_before(index, port);
      return;
    }
    const Array entries = from->kind() == Value::Kind::array ? from->array() : Array{*from};
    if (static_cast<int>(entries.size()) != inputs) {
      errors_.add(from->at(), fmt::format("'from' of '{}' names {}, but the stage has {}", to.name,
                                          plural(entries.size(), "stage"), plural(to.type->inputs.size(), "input")));
      return;
    }
    for (int port = 0; port < inputs; ++port) named(index, port, entries[static_cast<std::size_t>(port)]);
  }

  // Stages change samples in place, so each stage that emits samples needs exactly one consumer.
  void check_samples() {
    const auto batcher = std::find_if(plan_.stages.begin(), plan_.stages.end(), is_batcher);
    if (batcher == plan_.stages.end()) return;  // already reported
    const bool complete = std::all_of(plan_.stages.begin(), plan_.stages.end(), [](const StagePlan& s) { return s.type; });
    if (!complete) return;  // the missing stage might consume them
    const int batcher_index = static_cast<int>(batcher - plan_.stages.begin());
    bool lost = false;
    std::vector<std::pair<int, std::vector<std::string>>> forks;
    for (int i = 0; i < static_cast<int>(plan_.stages.size()); ++i) {
      if (!gives_samples(at(i))) continue;
      const std::vector<std::string> takers = takers_of_samples(i);
      if (takers.empty()) {
        lost = true;
        errors_.add(at(i).at, fmt::format("nothing takes what '{}' gives; {}", at(i).name,
                                          i > batcher_index ? fmt::format("put it before '{}' in the flow", batcher->name)
                                                            : "name it in 'from' of the stage that is to take it"));
      } else if (takers.size() > 1) {
        forks.push_back({i, takers});
      }
    }
    if (lost) return;  // this explains the forks
    for (const auto& [giver, takers] : forks) {
      errors_.add(
          at(giver).at,
          fmt::format("'{}' take what '{}' gives; samples take one way, as stages change them where they lie: let one take "
                      "what the other gives, or take it out of the flow",
                      fmt::join(takers, "' and '"), at(giver).name));
    }
  }

  // A graph that computes gradients trains, so one of its stages must use them.
  void check_gradients() {
    const StagePlan* giver = nullptr;
    for (const StagePlan& stage : plan_.stages) {
      if (!stage.type || uses_gradients(*stage.type)) return;  // a stage of unknown type might use them
      if (!giver && gives_gradients(*stage.type) && !takes(*stage.type, payload::kGradientBucket)) giver = &stage;
    }
    if (!giver) return;
    const bool validates = !plan_.every.empty();
    std::vector<std::string> remedies;
    for (const auto& [name, type] : registry_.stages()) {
      const bool infers =
          takes(type, payload::kBatch) && !gives_gradients(type) && find_port(type.outputs, payload::kStepResult) >= 0;
      if (validates ? infers : uses_gradients(type)) remedies.push_back(name);
    }
    const std::string remedy = fmt::format("{}", fmt::join(remedies, "' or '"));
    std::string message = fmt::format("'{}' computes gradients, and no stage of [{}] uses them", giver->name, plan_.name);
    if (!remedy.empty()) {
      message += validates ? fmt::format("; a graph beside the training takes '{}' instead", remedy)
                           : fmt::format(", so that nothing is trained; put '{}' after it in the flow", remedy);
    }
    errors_.add(giver->at, std::move(message));
  }

 private:
  static bool takes(const StageType& type, std::string_view payload) { return find_port(type.inputs, payload) >= 0; }
  static bool gives_gradients(const StageType& type) { return find_port(type.outputs, payload::kGradientBucket) >= 0; }
  // Other stages forward them.
  static bool uses_gradients(const StageType& type) {
    return takes(type, payload::kGradientBucket) && (type.takes_optimizer || !gives_gradients(type));
  }
  static bool is_batcher(const StagePlan& stage) { return stage.type && stage.type->role == StageType::Role::batcher; }
  static bool carries_samples(const Port& port) {
    return port.payload == payload::kSampleChunk || port.payload == payload::kImageChunk;
  }
  static bool gives_samples(const StagePlan& stage) {  // to later stages; a batcher returns bad ones, to be read again
    return !is_batcher(stage) && std::any_of(stage.type->outputs.begin(), stage.type->outputs.end(), carries_samples);
  }
  std::vector<std::string> takers_of_samples(int index) const {
    std::vector<std::string> names;
    for (const EdgePlan& edge : plan_.edges) {
      if (edge.from_stage != index) continue;
      const Port& port = at(index).type->outputs[static_cast<std::size_t>(edge.from_port)];
      if (carries_samples(port)) names.push_back(at(edge.to_stage).name);
    }
    return names;
  }
  const StagePlan& at(int index) const { return plan_.stages[static_cast<std::size_t>(index)]; }
  static std::string plural(std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  }

  void nearest_before(int index, int port) {
    const std::string& payload = at(index).type->inputs[static_cast<std::size_t>(port)].payload;
    bool complete = true;  // false if a stage of unknown type might feed it
    for (int before = index - 1; before >= 0; --before) {
      if (!at(before).type) {
        complete = false;
        continue;
      }
      if (const int output = find_port(at(before).type->outputs, payload); output >= 0) {
        plan_.edges.push_back({before, output, index, port});
        return;
      }
    }
    if (complete) report_unfed(index, port);
  }

  void report_unfed(int index, int port) {
    const std::string& wanted = at(index).type->inputs[static_cast<std::size_t>(port)].payload;
    std::vector<std::string> before, givers;
    for (int i = 0; i < index; ++i) before.push_back(list_outputs(at(i)));
    for (const auto& [name, type] : registry_.stages()) {
      const bool converts = find_port(type.outputs, wanted) >= 0 && find_port(type.inputs, wanted) < 0;
      // A batcher that emits chunks returns them, to be read again.
      if (converts && (type.role != StageType::Role::batcher || wanted == payload::kBatch)) givers.push_back(name);
    }
    std::string message =
        fmt::format("'{}' takes {}, which no stage before it in the flow of [{}] gives", at(index).name, wanted, plan_.name);
    if (!before.empty()) message += fmt::format(" ({})", fmt::join(before, ", "));
    if (!givers.empty()) message += fmt::format("; '{}' would give it", fmt::join(givers, "' or '"));
    errors_.add(at(index).at, std::move(message));
  }

  // `from = "stage"` or "stage.port".
  void named(int index, int port, const Value& entry) {
    const StagePlan& to = at(index);
    if (entry.kind() != Value::Kind::text) {
      errors_.add(entry.at(), fmt::format("'from' of '{}' must be the name of a stage, found {}", to.name, found(entry)));
      return;
    }
    std::string name = entry.text(), port_name;
    int giver = find_stage(name);
    if (const std::size_t dot = name.rfind('.'); giver < 0 && dot != std::string::npos) {
      port_name = name.substr(dot + 1);
      name.resize(dot);
      giver = find_stage(name);
    }
    if (giver < 0) {
      std::vector<std::string> names;
      for (int i = 0; i < index; ++i) names.push_back(at(i).name);
      errors_.add(entry.at(), fmt::format("'from' of '{}': there is no stage '{}' in the flow of [{}]{}", to.name, name,
                                          plan_.name, nearest_clause(name, names)));
    } else if (giver >= index) {
      errors_.add(entry.at(),
                  fmt::format("'from' of '{}' leads backwards: '{}' {}. That is a cycle without credit: only batches and "
                              "step tokens flow back, on edges that the framework makes itself",
                              to.name, name, giver == index ? "is the stage itself" : "stands after it in the flow"));
    } else if (at(giver).type) {
      check_port(index, port, giver, port_name, entry);
    }
  }

  int find_stage(const std::string& name) const {
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      if (plan_.stages[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  void check_port(int index, int port, int giver, const std::string& port_name, const Value& entry) {
    const StagePlan &to = at(index), &from = at(giver);
    const Port& input = to.type->inputs[static_cast<std::size_t>(port)];
    const std::vector<Port>& outputs = from.type->outputs;
    int output = find_port(outputs, input.payload);
    if (!port_name.empty()) {
      const auto named = std::find_if(outputs.begin(), outputs.end(), [&](const Port& p) { return p.name == port_name; });
      if (named == outputs.end()) {
        std::vector<std::string> names;
        for (const Port& candidate : outputs) names.push_back(candidate.name);
        errors_.add(entry.at(), fmt::format("'{}' has no output '{}'{}", from.name, port_name,
                                            names.empty() ? "" : fmt::format("; it has '{}'", fmt::join(names, "', '"))));
        return;
      }
      output = named->payload == input.payload ? static_cast<int>(named - outputs.begin()) : -1;
    }
    if (output < 0) {
      errors_.add(entry.at(), fmt::format("port mismatch: '{}' takes {}, {}{}", to.name, input.payload, list_outputs(from),
                                          givers_before(index, input.payload)));
      return;
    }
    plan_.edges.push_back({giver, output, index, port});
  }

  // Candidates in the form of `from`, as a clause.
  std::string givers_before(int index, const std::string& payload) const {
    std::vector<std::string> givers;
    for (int before = 0; before < index; ++before) {
      if (!at(before).type) continue;
      const std::vector<Port>& outputs = at(before).type->outputs;
      const int output = find_port(outputs, payload);
      if (output < 0) continue;
      givers.push_back(at(before).name + (outputs.size() > 1 ? "." + outputs[static_cast<std::size_t>(output)].name : ""));
    }
    return givers.empty() ? "" : fmt::format("; '{}' gives it", fmt::join(givers, "' or '"));
  }

  GraphPlan& plan_;
  const Registry& registry_;
  Diagnostics& errors_;
};

}  // namespace

void connect(GraphPlan& plan, const std::vector<const Value*>& from, const Registry& registry, Diagnostics& errors) {
  const std::size_t before = errors.size();
  Connector connector(plan, registry, errors);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) connector.stage(static_cast<int>(i), from[i]);
  if (errors.size() == before) connector.check_samples();
  if (errors.size() == before) connector.check_gradients();
}

}  // namespace millrace
