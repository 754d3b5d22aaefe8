#include "config/graph_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/backend/backend.h"
#include "millrace/util/load_plugins.h"
#include "plugin/loss_params.h"
#include "plugin/optimizer_params.h"

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
        errors_.add(at(i).at, fmt::format("no stage takes the output of '{}'; {}", at(i).name,
                                          i > batcher_index ? fmt::format("put it before '{}' in the flow", batcher->name)
                                                            : "name it in 'from' of the stage that should take it"));
      } else if (takers.size() > 1) {
        forks.push_back({i, takers});
      }
    }
    if (lost) return;  // this explains the forks
    for (const auto& [giver, takers] : forks) {
      errors_.add(at(giver).at, fmt::format("'{}' take the output of '{}'; samples have one path, since stages change them in "
                                            "place: let one take the other's output, or remove it from the flow",
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
    std::string message = fmt::format("'{}' computes gradients, but no stage of [{}] uses them", giver->name, plan_.name);
    if (!remedy.empty()) {
      message += validates ? fmt::format("; a graph that does not train takes '{}' instead", remedy)
                           : fmt::format(", so nothing is trained; put '{}' after it in the flow", remedy);
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
        fmt::format("'{}' takes {}, which no stage before it in the flow of [{}] outputs", at(index).name, wanted, plan_.name);
    if (!before.empty()) message += fmt::format(" ({})", fmt::join(before, ", "));
    if (!givers.empty()) message += fmt::format("; '{}' outputs it", fmt::join(givers, "' or '"));
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
      errors_.add(entry.at(), fmt::format("'from' of '{}': no stage '{}' is in the flow of [{}]{}", to.name, name, plan_.name,
                                          nearest_clause(name, names)));
    } else if (giver >= index) {
      errors_.add(entry.at(), fmt::format("'from' of '{}' points backwards: '{}' {}. That is a cycle without credits: only "
                                          "batches and step tokens flow back, on edges that the framework adds",
                                          to.name, name, giver == index ? "is the stage itself" : "comes after it in the flow"));
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

// Finds the edges of plan.stages by the rule in plan.h. `from[i]`: the key in stage i's table, or null.
void connect(GraphPlan& plan, const std::vector<const Value*>& from, const Registry& registry, Diagnostics& errors) {
  const std::size_t before = errors.size();
  Connector connector(plan, registry, errors);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) connector.stage(static_cast<int>(i), from[i]);
  if (errors.size() == before) connector.check_samples();
  if (errors.size() == before) connector.check_gradients();
}

class GraphReader {
 public:
  GraphReader(const Member& graph, const Registry& registry, Diagnostics& errors)
      : name_(graph.key), table_(graph.value), registry_(registry), errors_(errors) {
    plan_.name = graph.key;
    plan_.at = graph.value.at();
  }

  GraphPlan read() {
    read_every();
    read_before();
    read_flow();
    report_unknown_keys();
    check_roles();
    check_outputs();
    connect(plan_, from_, registry_, errors_);
    return std::move(plan_);
  }

 private:
  void read_every() {
    const Value* every = table_.find("every");
    if (!every) return;
    std::string hint;
    const bool is_text = every->kind() == Value::Kind::text;
    if (const auto when = is_text ? parse_every(every->text(), hint) : std::nullopt) {
      plan_.every = every->text();
      plan_.when = *when;
    } else {
      errors_.add(every->at(), fmt::format("'every' must be {}, found {}{}", kEveryForms, found(*every), hint));
    }
  }

  void read_before() {
    const Value* before = table_.find("before");
    if (!before) return;
    if (!table_.find("every")) {
      const auto& members = table_.table();
      const auto member = std::find_if(members.begin(), members.end(), [](const Member& m) { return m.key == "before"; });
      errors_.add(member->at, fmt::format("'before' is for graphs with `every`; [{}] is the run itself: leave it out", name_));
    } else if (before->kind() != Value::Kind::boolean) {
      errors_.add(before->at(), fmt::format("'before' must be true or false, found {}", found(*before)));
    } else {
      plan_.before = before->boolean();
    }
  }

  void read_flow() {
    const Value& flow = *table_.find("flow");
    if (flow.kind() != Value::Kind::array || flow.array().empty()) {
      errors_.add(flow.at(), fmt::format("'flow' of [{}] must be a list of stages' names, found {}", name_,
                                         flow.kind() == Value::Kind::array ? "an empty one" : found(flow)));
      return;
    }
    for (const Value& entry : flow.array()) {
      if (entry.kind() != Value::Kind::text) {
        errors_.add(entry.at(),
                    fmt::format("'flow' of [{}] must be a list of stages' names, found {} in it", name_, found(entry)));
      } else if (has_stage(entry.text())) {
        errors_.add(entry.at(),
                    fmt::format("'{0}' is in the flow of [{1}] twice: give the second stage another name, and a table "
                                "[{1}.NAME] with stage = \"{0}\"",
                                entry.text(), name_));
      } else {
        read_stage(entry);
      }
    }
  }

  bool has_stage(const std::string& name) const {
    return std::any_of(plan_.stages.begin(), plan_.stages.end(), [&](const StagePlan& stage) { return stage.name == name; });
  }

  void read_stage(const Value& entry) {
    StagePlan stage;
    stage.name = entry.text();
    stage.at = entry.at();
    stage.table.set_position(entry.at());
    Value type_name = entry;
    const Value* from = nullptr;
    const Value* table = table_.find(stage.name);
    if (table) {
      if (table->kind() != Value::Kind::table) {
        errors_.add(table->at(), fmt::format("[{}.{}] must be a table, found {}", name_, stage.name, found(*table)));
      } else {
        stage.table = *table;
        from = table->find("from");
        if (const Value* written = table->find("stage")) type_name = *written;
        stage.table.erase("from");
        stage.table.erase("stage");
      }
    }
    find_type(type_name, table, stage);
    const std::string owner = fmt::format("[{}.{}]", name_, stage.name);
    if (stage.type && stage.type->check) stage.type->check(stage.table, owner, errors_);
    if (stage.type && stage.type->takes_optimizer) check_optimizer(*stage.type, stage.table, registry_, owner, errors_);
    if (stage.type && stage.type->takes_loss) check_loss_table(stage.table, registry_, owner, errors_);
    plan_.stages.push_back(std::move(stage));
    from_.push_back(from);
  }

  // `table`: the stage's, if it has one.
  void find_type(const Value& type_name, const Value* table, StagePlan& stage) {
    if (type_name.kind() != Value::Kind::text) {
      errors_.add(type_name.at(), fmt::format("'stage' must be text, a stage's type, found {}", found(type_name)));
      return;
    }
    stage.type = registry_.stages().find(type_name.text());
    if (stage.type || has_misspelt_type(table, stage.name)) return;
    std::vector<std::string> names;
    if (!table) names = tables_outside_flow();
    for (const auto& [name, type] : registry_.stages()) names.push_back(name);
    const std::string nearest = nearest_clause(type_name.text(), names);
    errors_.add(type_name.at(), fmt::format("unknown stage '{}'{}{}", type_name.text(),
                                            nearest.empty() ? "; `pipeline-inspect` lists all" : nearest,
                                            skipped_clause(registry_, type_name.text())));
  }

  // Whether the table lacks 'stage' but has a similar key, which is reported.
  bool has_misspelt_type(const Value* table, const std::string& name) {
    if (!table || table->kind() != Value::Kind::table || table->find("stage")) return false;
    for (const Member& member : table->table()) {
      if (!nearest_name(member.key, {"stage"})) continue;
      errors_.add(member.at, fmt::format("[{}.{}] has no key '{}'; nearest is 'stage'", name_, name, member.key));
      return true;
    }
    return false;
  }

  // Candidates for a stage's name in the flow.
  std::vector<std::string> tables_outside_flow() const {
    std::vector<std::string> names;
    const Array& flow = table_.find("flow")->array();
    for (const Member& member : table_.table()) {
      const auto is_it = [&](const Value& entry) { return entry.kind() == Value::Kind::text && entry.text() == member.key; };
      if (member.value.kind() == Value::Kind::table && std::none_of(flow.begin(), flow.end(), is_it)) names.push_back(member.key);
    }
    return names;
  }

  // Reports keys and tables that belong to nothing.
  void report_unknown_keys() {
    std::vector<std::string> stages, keys = {"flow", "every", "before"};
    for (const StagePlan& stage : plan_.stages) stages.push_back(stage.name);
    keys.insert(keys.end(), stages.begin(), stages.end());
    for (const Member& member : table_.table()) {
      if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
      if (member.value.kind() == Value::Kind::table) {
        errors_.add(member.at, fmt::format("[{}.{}] is not in the flow of [{}]{}", name_, member.key, name_,
                                           nearest_clause(member.key, stages)));
      } else {
        std::string clause = nearest_clause(member.key, keys);
        if (clause.empty() && !stages.empty())
          clause = fmt::format("; keys of stages belong in the stages' tables, such as [{}.{}]", name_, stages.front());
        errors_.add(member.at, fmt::format("[{}] has no key '{}'{}", name_, member.key, clause));
      }
    }
  }

  // A graph needs a single source of samples and a single kind of batch.
  void check_roles() {
    const StagePlan* source = nullptr;
    const StagePlan* batcher = nullptr;
    bool complete = true;
    for (const StagePlan& stage : plan_.stages) {
      if (!stage.type) {
        complete = false;
        continue;
      }
      const bool is_source = stage.type->role == StageType::Role::source;
      if (!is_source && stage.type->role != StageType::Role::batcher) continue;
      const StagePlan*& first = is_source ? source : batcher;
      if (first) {
        errors_.add(stage.at, fmt::format("[{}] has two stages {}: '{}' and '{}'; it may have one", name_,
                                          is_source ? "that read samples" : "that make batches", first->name, stage.name));
      }
      first = &stage;
    }
    if (complete && source && !batcher) {
      errors_.add(
          source->at,
          fmt::format("[{}] reads samples but makes no batches of them; put a stage such as 'batch' into its flow", name_));
    }
  }

  // Two stages of a type that write, or keep, the same file would overwrite each other's.
  void check_outputs() {
    for (const StagePlan& stage : plan_.stages) {
      for (const StagePlan& before : plan_.stages) {
        if (&before == &stage) break;
        if (stage.type == nullptr || before.type != stage.type) continue;
        for (const char* key : {"file", "folder"}) {
          const std::string file = place_in(stage, key);
          if (file.empty() || file != place_in(before, key)) continue;
          errors_.add(stage.table_at(),
                      fmt::format("[{0}.{1}] writes into '{2}', as [{0}.{3}] does: give one of them another '{4}'", name_,
                                  stage.name, file, before.name, key));
        }
      }
    }
  }

  const std::string& name_;
  const Value& table_;
  const Registry& registry_;
  Diagnostics& errors_;
  GraphPlan plan_;
  std::vector<const Value*> from_;
};

}  // namespace

std::string place_in(const StagePlan& stage, const char* key) {
  const Value* value = stage.table.find(key);
  if (value == nullptr) value = stage.type->defaults.find(key);
  return value != nullptr && value->kind() == Value::Kind::text ? value->text() : std::string();
}

GraphPlan plan_graph(const Member& graph, const Registry& registry, Diagnostics& errors) {
  return GraphReader(graph, registry, errors).read();
}

std::string nearest_clause(std::string_view name, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? fmt::format("; nearest is '{}'", *nearest) : "";
}

}  // namespace millrace
