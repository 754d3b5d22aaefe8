#include "config/old_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/overruled_keys.h"
#include "millrace/detail/types.h"

namespace millrace {
namespace {

// The `type` of an optimizer or a loss used to be called `rule`.
void rename_rule(Value& table, const Overrules& overrules, std::vector<std::string>& warnings) {
  if (table.kind() != Value::Kind::table) return;
  const auto rule = std::ranges::find(table.table(), "rule", &Member::key);
  if (rule == table.table().end()) return;
  if (const Value* const type = table.find("type"); type != nullptr && !overrules(rule->value.at(), type->at())) return;
  rule->key = "type";
  warnings.push_back(fmt::format("{}: 'rule' is now called 'type', and is read as that", to_string(rule->at)));
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
