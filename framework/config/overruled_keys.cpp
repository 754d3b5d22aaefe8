#include "config/overruled_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "millrace/detail/types.h"
#include "millrace/optimizer.h"

namespace millrace {
namespace {

bool is_param(const std::vector<ParamInfo>& params, const std::string& key) {
  return std::ranges::find(params, key, &ParamInfo::name) != params.end();
}

// 0 for --set, then the files: each before those that it extends.
std::size_t rank_of(const Position& at, const std::vector<std::string>& files) {
  if (at.line == 0) return 0;
  return 1 + static_cast<std::size_t>(std::ranges::find(files, *at.file) - files.begin());
}

// `kinds`: all optimizers, or all losses; the table names one of them. Removes keys of the others; `own` are the table's keys.
template <class Kinds>
void drop_keys_of_others(const std::vector<ParamInfo>& own, const Kinds& kinds, Value& table, const Overrules& overrules) {
  const Value* const optimizer = table.kind() == Value::Kind::table ? table.find("type") : nullptr;
  if (optimizer == nullptr || optimizer->kind() != Value::Kind::text) return;
  const TypeDescription* const named = kinds.find(optimizer->text());
  if (named == nullptr) return;
  const auto is_of_another = [&](const std::string& key) {
    if (is_param(own, key) || is_param(named->params, key)) return false;
    return std::ranges::any_of(kinds, [&](const auto& kind) { return is_param(kind.second.params, key); });
  };
  const Position at = optimizer->at();
  std::erase_if(table.table(),
                [&](const Member& member) { return overrules(at, member.value.at()) && is_of_another(member.key); });
}

// If a later text names another flow, removes the tables of stages no longer in it.
void drop_stages_left_out(Value& graph, const Overrules& overrules) {
  const Value* const flow = graph.find("flow");
  if (flow == nullptr || flow->kind() != Value::Kind::array) return;
  const Array& stages = flow->array();
  const Position at = flow->at();
  std::erase_if(graph.table(), [&](const Member& member) {
    const auto is_it = [&](const Value& stage) { return stage.kind() == Value::Kind::text && stage.text() == member.key; };
    return member.value.kind() == Value::Kind::table && overrules(at, member.value.at()) && std::ranges::none_of(stages, is_it);
  });
}

// If a later text names another type of stage, removes keys of the previous type.
void drop_keys_of_another_type(const StageType& type, const Registry& registry, Value& table, const Overrules& overrules) {
  const Value* const named = table.kind() == Value::Kind::table ? table.find("stage") : nullptr;
  if (named == nullptr) return;
  const Position at = named->at();
  std::erase_if(table.table(), [&](const Member& member) {
    const auto has_it = [&](const auto& optimizer) { return is_param(optimizer.second.params, member.key); };
    if (type.takes_optimizer && std::ranges::any_of(registry.optimizers(), has_it)) return false;
    return member.key != "from" && overrules(at, member.value.at()) && !is_param(type.params, member.key);
  });
}

}  // namespace

const StageType* stage_type_of(const std::string& name, const Value* table, const Registry& registry) {
  const Value* const type = table != nullptr ? table->find("stage") : nullptr;
  return registry.stages().find(type != nullptr && type->kind() == Value::Kind::text ? type->text() : name);
}

Overrules later_texts(const std::vector<std::string>& files) {
  return [&files](const Position& text, const Position& key) { return rank_of(text, files) < rank_of(key, files); };
}

void drop_overruled_keys(Value& graph, const Registry& registry, const std::vector<std::string>& files) {
  const Overrules overrules = later_texts(files);
  drop_stages_left_out(graph, overrules);
  for (Member& stage : graph.table()) {
    const StageType* const type = stage_type_of(stage.key, &stage.value, registry);
    if (type == nullptr) continue;
    drop_keys_of_another_type(*type, registry, stage.value, overrules);
    drop_overruled(type->params, stage.value, overrules);
    if (type->takes_optimizer) drop_keys_of_others(type->params, registry.optimizers(), stage.value, overrules);
    Value* const loss = type->takes_loss ? stage.value.find("loss") : nullptr;
    if (loss != nullptr) drop_keys_of_others({}, registry.losses(), *loss, overrules);
  }
}

namespace {

// The `type` of an optimizer or a loss used to be called `rule`.
void rename_rule(Value& table, const Overrules& overrules, std::vector<std::string>& warnings) {
  if (table.kind() != Value::Kind::table) return;
  const auto rule = std::ranges::find(table.table(), "rule", &Member::key);
  if (rule == table.table().end()) return;
  if (const Value* const type = table.find("type"); type != nullptr && !overrules(rule->value.at(), type->at())) return;
  rule->key = "type";
  warnings.push_back(fmt::format("{}: 'rule' is now called 'type', and is read as such", to_string(rule->at)));
  // If both exist, the later text's is used: the one just renamed.
  const Position at = rule->value.at();
  std::erase_if(table.table(), [&](const Member& each) { return each.key == "type" && overrules(at, each.value.at()); });
}

void rename_in_graph(Value& graph, const Registry& registry, const Overrules& overrules, std::vector<std::string>& warnings) {
  for (Member& stage : graph.table()) {
    const StageType* const type = stage_type_of(stage.key, &stage.value, registry);
    if (type == nullptr) continue;
    if (Value* const loss = type->takes_loss ? stage.value.find("loss") : nullptr) rename_rule(*loss, overrules, warnings);
    if (!type->takes_optimizer || stage.value.kind() != Value::Kind::table) continue;
    rename_rule(stage.value, overrules, warnings);
    for (Member& groups : stage.value.table()) {  // groups of parameters with their own optimizer
      if (groups.value.kind() != Value::Kind::array) continue;
      for (Value& group : groups.value.array()) rename_rule(group, overrules, warnings);
    }
  }
}

}  // namespace

void rename_old_keys(Value& document, const Registry& registry, const std::vector<std::string>& files,
                     std::vector<std::string>& warnings) {
  for (Member& graph : document.table()) {
    if (graph.value.kind() == Value::Kind::table) rename_in_graph(graph.value, registry, later_texts(files), warnings);
  }
}

}  // namespace millrace
