#include "common/settable_keys.h"

#include <map>
#include <optional>
#include <utility>

#include "config/overruled_keys.h"
#include "config/plan.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "toml/document.h"
#include "toml/shipped.h"

namespace millrace {
namespace {

using Keys = std::map<std::string, SettableKey>;

std::vector<std::string> choices_of(const ParamInfo& info) {
  if (info.type == "true or false") return {"true", "false"};
  return info.choices;
}

// `given`: the table in the file; null if it has none.
void add_declared(Keys& keys, const std::string& prefix, const std::vector<ParamInfo>& params, const Value& defaults,
                  const Value* given) {
  for (const ParamInfo& info : params) {
    const std::string name = prefix + info.name;
    const Value* const value = given != nullptr ? given->find(info.name) : nullptr;
    const Value* const shown = value != nullptr ? value : defaults.find(info.name);
    const bool is_table = info.type == "table" && (value == nullptr || value->kind() == Value::Kind::table);
    if (is_table) {
      add_declared(keys, name + ".", info.members, info.member_defaults, value);
    } else {
      keys[name] = {name, shown != nullptr && !info.required ? to_toml(*shown) : "", info.text, choices_of(info)};
    }
  }
}

// Keys in the file that nothing declares, such as variables.
void add_given(Keys& keys, const std::string& prefix, const Value& table) {
  for (const Member& member : table.table()) {
    const std::string name = prefix + member.key;
    if (member.value.kind() == Value::Kind::table) {
      add_given(keys, name + ".", member.value);
    } else {
      keys.try_emplace(name, SettableKey{name, "", "", {}}).first->second.value = to_toml(member.value);
    }
  }
}

template <class Params>
void add_table(Keys& keys, const std::string& name, const Value& document) {
  ParamSet<Params> set;
  Params::describe(set);
  const Params defaults;
  add_declared(keys, name + ".", set.infos(), write_params(set.infos(), &defaults), document.find(name));
}

// The keys common to all sources: the source itself may depend on the data.
std::vector<ParamInfo> keys_of_sources(const Registry& registry) {
  std::map<std::string, std::pair<std::size_t, ParamInfo>> counted;
  std::size_t sources = 0;
  for (const auto& [name, type] : registry.stages()) {
    if (type.role != StageType::Role::source) continue;
    ++sources;
    for (const ParamInfo& info : type.params) {
      const auto [at, is_new] = counted.try_emplace(info.name, 0, info);
      ++at->second.first;
    }
  }
  std::vector<ParamInfo> shared;
  for (auto& [name, entry] : counted) {
    if (entry.first == sources) shared.push_back(std::move(entry.second));
  }
  return shared;
}

void set_choices(Keys& keys, const std::string& name, std::vector<std::string> choices) {
  if (const auto key = keys.find(name); key != keys.end()) key->second.choices = std::move(choices);
}

// Other keys of a stage's table: those of its optimizer; and the available optimizers and losses.
void add_parts(Keys& keys, const std::string& prefix, const StageType& type, const Value* given, const Registry& registry) {
  if (type.takes_optimizer) {
    const Value* const named = given != nullptr ? given->find("type") : nullptr;
    const Value* const name = named != nullptr ? named : type.defaults.find("type");
    if (name != nullptr && name->kind() == Value::Kind::text) {
      if (const OptimizerType* optimizer = registry.optimizers().find(name->text())) {
        add_declared(keys, prefix, optimizer->params, optimizer->defaults, given);
      }
    }
    set_choices(keys, prefix + "type", registry.optimizers().names());
  }
  if (type.takes_loss) set_choices(keys, prefix + "loss", registry.losses().names());
}

void add_graph(Keys& keys, const std::string& graph, const Value& table, const Registry& registry) {
  const Value* const flow = table.find("flow");
  if (flow == nullptr || flow->kind() != Value::Kind::array) return;
  for (const Value& stage : flow->array()) {
    if (stage.kind() != Value::Kind::text) continue;
    const Value* const given = table.find(stage.text());
    const Value* const named = given != nullptr ? given->find("stage") : nullptr;
    const StageType* const type =
        registry.stages().find(named != nullptr && named->kind() == Value::Kind::text ? named->text() : stage.text());
    const std::string prefix = graph + "." + stage.text() + ".";
    if (type != nullptr) {
      add_declared(keys, prefix, type->params, type->defaults, given);
      add_parts(keys, prefix, *type, given, registry);
    } else if (stage.text() == "read") {
      add_declared(keys, prefix, keys_of_sources(registry), {}, given);
    }
  }
}

// A base file does not set where its data are (config/data_layout.h).
void add_data(Keys& keys, const Value& document) {
  const Value* const data = document.find("data");
  if (data == nullptr || data->find("holds") == nullptr) return;
  for (const auto& [key, text] : {std::pair("data.path", "a folder, a list, tar shards, or a URL of one of them"),
                                  std::pair("data.train", "instead of `path`: the training data"),
                                  std::pair("data.validate", "instead of `path`: the held-out data"),
                                  std::pair("data.annotations", "a file or folder of annotations of these images")}) {
    keys[key] = {key, "", text, {}};
  }
}

// Omits keys that a later file overrides, such as those of a replaced optimizer.
Value document_of(const std::string& file, const Registry& registry) {
  const std::optional<std::string> base = is_shipped_name(file) ? find_shipped(kBases, file, ".") : std::nullopt;
  Diagnostics errors;
  DocumentSources sources;
  auto document = read_document(base.value_or(file), {}, errors, {}, &sources);
  errors.throw_if_any();
  for (Member& member : document->table()) {
    if (member.value.kind() == Value::Kind::table && member.value.find("flow") != nullptr)
      drop_overruled_keys(member.value, registry, sources.files);
  }
  return std::move(*document);
}

}  // namespace

std::vector<SettableKey> settable_keys(const std::string& file, const Registry& registry) {
  const Value document = document_of(file, registry);
  Keys keys;
  add_table<RunParams>(keys, "run", document);
  add_table<StopParams>(keys, "stop", document);
  add_table<PlateauParams>(keys, "plateau", document);
  add_table<CheckpointParams>(keys, "checkpoint", document);
  add_table<NetworkParams>(keys, "network", document);
  std::vector<std::string> networks;
  for (const auto& [name, path] : shipped_files(kNetworks, ".")) networks.push_back(name);
  set_choices(keys, "network.use", std::move(networks));
  const Value* const observe = document.find("observe");
  for (const auto& [name, type] : registry.observers()) {
    const Value* const given = observe != nullptr ? observe->find(name) : nullptr;
    add_declared(keys, "observe." + name + ".", type.params, type.defaults, given);
  }
  for (const Member& member : document.table()) {
    if (member.value.kind() == Value::Kind::table) add_graph(keys, member.key, member.value, registry);
  }
  add_data(keys, document);
  add_given(keys, "", document);
  std::vector<SettableKey> list;
  for (auto& [name, key] : keys) list.push_back(std::move(key));
  return list;
}

}  // namespace millrace
