#include "plugin/optimizer_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/optimizer.h"
#include "millrace/util/load_plugins.h"

namespace millrace {
namespace {

bool has(const std::vector<ParamInfo>& params, const std::string& key) {
  return std::any_of(params.begin(), params.end(), [&](const ParamInfo& info) { return info.name == key; });
}

void append_names(const std::vector<ParamInfo>& params, std::vector<std::string>& names) {
  for (const ParamInfo& info : params) names.push_back(info.name);
}

// A stage's table that contains keys of an optimizer.
struct OptimizerTable {
  const Registry& registry;
  const std::string& owner;
  std::vector<std::string> stage_keys;  // for messages

  const OptimizerType* find(const std::string& name, const Position& at, Diagnostics& errors) const {
    if (const OptimizerType* type = registry.optimizers().find(name)) return type;
    const std::vector<std::string> names = registry.optimizers().names();
    const auto nearest = registry.optimizers().nearest(name);
    errors.add(at, fmt::format("{}: unknown optimizer '{}'; {}{}", owner, name,
                               nearest         ? fmt::format("nearest is '{}'", *nearest)
                               : names.empty() ? std::string("no plugin registers one")
                                               : fmt::format("there are '{}'", fmt::join(names, "', '")),
                               skipped_clause(registry, "optimizers")));
    return nullptr;
  }

  std::shared_ptr<const Optimizer> read(const OptimizerType& type, Value table, Diagnostics& errors) const {
    const std::size_t before = errors.size();
    std::erase_if(table.table(), [&](const Member& member) {
      const bool strange = !has(type.params, member.key);
      if (strange) errors.add(member.at, unknown_key(&type, member.key));
      return strange;
    });
    std::shared_ptr<const Optimizer> optimizer = type.create(table, owner, errors);
    return errors.size() == before ? optimizer : nullptr;
  }

  // Reports other keys of a table that names no optimizer.
  void refuse(const Value& others, Diagnostics& errors) const {
    for (const Member& member : others.table()) errors.add(member.at, unknown_key(nullptr, member.key));
  }

 private:
  std::string unknown_key(const OptimizerType* type, const std::string& key) const {
    std::vector<std::string> owners, keys = stage_keys;
    for (const auto& [name, other] : registry.optimizers()) {
      if (has(other.params, key)) owners.push_back(name);
    }
    if (!owners.empty()) {
      return fmt::format("{}: '{}' belongs to optimizer{} '{}'; {}", owner, key, owners.size() > 1 ? "s" : "",
                         fmt::join(owners, "', '"),
                         type ? fmt::format("this is '{}'", type->name) : "no optimizer is named here");
    }
    if (type != nullptr) append_names(type->params, keys);
    const auto nearest = nearest_name(key, keys);
    return nearest ? fmt::format("{} has no key '{}'; nearest is '{}'", owner, key, *nearest)
                   : fmt::format("{} has no key '{}'; it takes '{}'", owner, key, fmt::join(keys, "', '"));
  }
};

// Checks a table of a list whose tables may name optimizers of their own.
void check_entry(const ParamInfo& list, const Value& entry, const Registry& registry, Diagnostics& errors) {
  if (entry.kind() != Value::Kind::table) return;  // the stage's own check reports this
  const std::string owner = fmt::format("'{}'", list.name);
  OptimizerTable reader{registry, owner, {}};
  append_names(list.members, reader.stage_keys);
  Value own = entry;
  const Value others = take_other_keys(list.members, own);
  const Value* name = own.find("type");
  if (name == nullptr) return reader.refuse(others, errors);
  if (name->kind() != Value::Kind::text) return;
  if (const OptimizerType* type = reader.find(name->text(), name->at(), errors)) reader.read(*type, others, errors);
}

}  // namespace

void check_optimizer(const StageType& stage, const Value& table, const Registry& registry, const std::string& owner,
                     Diagnostics& errors) {
  if (table.kind() != Value::Kind::table) return;
  for (const ParamInfo& info : stage.params) {
    const Value* list = info.shared ? table.find(info.name) : nullptr;
    if (list == nullptr || list->kind() != Value::Kind::array) continue;
    for (const Value& entry : list->array()) check_entry(info, entry, registry, errors);
  }
  const Value* written = table.find("type");
  const Value* name = written ? written : stage.defaults.find("type");
  if (name == nullptr || name->kind() != Value::Kind::text) return;  // the stage's own check reports this
  OptimizerTable reader{registry, owner, {}};
  append_names(stage.params, reader.stage_keys);
  const OptimizerType* type = reader.find(name->text(), written ? written->at() : table.at(), errors);
  Value own = table;
  if (type != nullptr) reader.read(*type, take_other_keys(stage.params, own), errors);
}

std::shared_ptr<const Optimizer> make_optimizer(const OptimizerParams& params, const StageSite& site, std::string_view list) {
  if (site.registry == nullptr) fail(ErrorKind::usage, "optimizer '{}': no registry was given to find it in", params.optimizer);
  Diagnostics errors;
  const std::string owner = list.empty() ? StageTypeAccess::owner_of(site) : fmt::format("'{}'", list);
  const OptimizerTable reader{*site.registry, owner, {}};
  std::shared_ptr<const Optimizer> optimizer;
  if (params.optimizer.empty() && !list.empty()) {
    reader.refuse(params.optimizer_table, errors);
  } else if (const OptimizerType* type = reader.find(params.optimizer, params.optimizer_table.at(), errors)) {
    optimizer = reader.read(*type, params.optimizer_table, errors);
  }
  errors.throw_if_any();
  return optimizer;
}

}  // namespace millrace
