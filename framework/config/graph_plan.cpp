#include "config/graph_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/util/load_plugins.h"
#include "plugin/loss_params.h"
#include "plugin/optimizer_params.h"

namespace millrace {

namespace {

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
    report_strangers();
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
      errors_.add(member->at, fmt::format("'before' is of graphs with `every`; [{}] is the run itself: leave it out", name_));
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
    errors_.add(type_name.at(), fmt::format("there is no stage '{}'{}{}", type_name.text(),
                                            nearest.empty() ? "; `pipeline-inspect` lists all there are" : nearest,
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
  void report_strangers() {
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
          clause = fmt::format("; keys of stages stand in the stages' tables, such as [{}.{}]", name_, stages.front());
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
