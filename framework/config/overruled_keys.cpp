#include "config/overruled_keys.h"

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

// `kinds`: all rules, or all losses, of which the table names one. Keys of others than that go; `own` are those of the table.
template <class Kinds>
void drop_keys_of_others(const std::vector<ParamInfo>& own, const Kinds& kinds, Value& table, const Overrules& overrules) {
  const Value* const rule = table.kind() == Value::Kind::table ? table.find("rule") : nullptr;
  if (rule == nullptr || rule->kind() != Value::Kind::text) return;
  const TypeDescription* const named = kinds.find(rule->text());
  if (named == nullptr) return;
  const auto is_of_another = [&](const std::string& key) {
    if (is_param(own, key) || is_param(named->params, key)) return false;
    return std::ranges::any_of(kinds, [&](const auto& kind) { return is_param(kind.second.params, key); });
  };
  const Position at = rule->at();
  std::erase_if(table.table(),
                [&](const Member& member) { return overrules(at, member.value.at()) && is_of_another(member.key); });
}

}  // namespace

Overrules later_texts(const std::vector<std::string>& files) {
  return [&files](const Position& text, const Position& key) { return rank_of(text, files) < rank_of(key, files); };
}

void drop_overruled_keys(Value& graph, const Registry& registry, const std::vector<std::string>& files) {
  const Overrules overrules = later_texts(files);
  for (Member& stage : graph.table()) {
    const Value* const named = stage.value.find("stage");
    const StageType* const type =
        registry.stage(named != nullptr && named->kind() == Value::Kind::text ? named->text() : stage.key);
    if (type == nullptr) continue;
    drop_overruled(type->params, stage.value, overrules);
    if (type->takes_rule) drop_keys_of_others(type->params, registry.rules(), stage.value, overrules);
    Value* const loss = type->takes_loss ? stage.value.find("loss") : nullptr;
    if (loss != nullptr) drop_keys_of_others({}, registry.losses(), *loss, overrules);
  }
}

}  // namespace millrace
