#include "plugin/rule_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/error.h"

namespace millrace {
namespace {

bool has(const std::vector<ParamInfo>& params, const std::string& key) {
  return std::any_of(params.begin(), params.end(), [&](const ParamInfo& info) { return info.name == key; });
}

void append_names(const std::vector<ParamInfo>& params, std::vector<std::string>& names) {
  for (const ParamInfo& info : params) names.push_back(info.name);
}

// A stage's table with the keys of a rule in it.
struct RuleTable {
  const Registry& registry;
  const std::string& owner;
  std::vector<std::string> stage_keys;  // for messages

  const RuleType* find(const std::string& name, const Position& at, Diagnostics& errors) const {
    if (const RuleType* type = registry.rule(name)) return type;
    std::vector<std::string> names;
    for (const auto& [known, type] : registry.rules()) names.push_back(known);
    const auto nearest = nearest_name(name, names);
    errors.add(at, fmt::format("{}: there is no update rule '{}'; {}{}", owner, name,
                               nearest         ? fmt::format("nearest is '{}'", *nearest)
                               : names.empty() ? std::string("no plugin brings one")
                                               : fmt::format("there are '{}'", fmt::join(names, "', '")),
                               registry.skipped_clause("rules")));
    return nullptr;
  }

  std::shared_ptr<const Rule> read(const RuleType& type, Value table, Diagnostics& errors) const {
    const std::size_t before = errors.size();
    std::erase_if(table.table(), [&](const Member& member) {
      const bool strange = !has(type.params, member.key);
      if (strange) errors.add(member.at, stranger(type, member.key));
      return strange;
    });
    std::shared_ptr<const Rule> rule = type.create(table, owner, errors);
    return errors.size() == before ? rule : nullptr;
  }

 private:
  std::string stranger(const RuleType& type, const std::string& key) const {
    std::vector<std::string> owners, keys = stage_keys;
    for (const auto& [name, other] : registry.rules()) {
      if (has(other.params, key)) owners.push_back(name);
    }
    if (!owners.empty()) {
      return fmt::format("{}: '{}' belongs to rule{} '{}'; this is '{}'", owner, key, owners.size() > 1 ? "s" : "",
                         fmt::join(owners, "', '"), type.name);
    }
    append_names(type.params, keys);
    const auto nearest = nearest_name(key, keys);
    return nearest ? fmt::format("{} has no key '{}'; nearest is '{}'", owner, key, *nearest)
                   : fmt::format("{} has no key '{}'; it takes '{}'", owner, key, fmt::join(keys, "', '"));
  }
};

}  // namespace

void check_rule(const StageType& stage, const Value& table, const Registry& registry, const std::string& owner,
                Diagnostics& errors) {
  if (table.kind() != Value::Kind::table) return;
  const Value* written = table.find("rule");
  const Value* name = written ? written : stage.defaults.find("rule");
  if (name == nullptr || name->kind() != Value::Kind::text) return;  // which the stage's own check reports
  RuleTable reader{registry, owner, {}};
  append_names(stage.params, reader.stage_keys);
  const RuleType* type = reader.find(name->text(), written ? written->at() : table.at(), errors);
  Value own = table;
  if (type != nullptr) reader.read(*type, StageTypeAccess::take_rule_table(stage.params, own), errors);
}

std::shared_ptr<const Rule> make_rule(const RuleParams& params, const StageContext& context) {
  if (context.registry == nullptr) fail(ErrorKind::usage, "update rule '{}': there is no registry to find it in", params.rule);
  Diagnostics errors;
  const std::string owner = StageTypeAccess::owner_of(context);
  const RuleTable reader{*context.registry, owner, {}};
  std::shared_ptr<const Rule> rule;
  if (const RuleType* type = reader.find(params.rule, params.rule_table.at(), errors)) {
    rule = reader.read(*type, params.rule_table, errors);
  }
  errors.throw_if_any();
  return rule;
}

}  // namespace millrace
