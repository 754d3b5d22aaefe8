#include "children.h"

#include <algorithm>
#include <set>

#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {

namespace {

std::vector<std::string> sampling_keys() {
  ParamSet<SourceParams> set;
  SourceParams::describe(set);
  std::vector<std::string> keys;
  for (const ParamInfo& info : set.infos()) keys.push_back(info.name);
  return keys;
}

// The alternative for a single source.
std::string_view way_out(std::string_view key) {
  if (key == "limit" || key == "only" || key == "part" || key == "part_seed")
    return ", where it chooses among the samples of all sources; to choose among those of one, read a list of them (read_list)";
  if (key == "balance" || key == "class_weights") return "; how often the samples of one source come is its `weight`";
  return "";
}

const StageType* find_type(const Value& stage, const std::string& owner, const Registry& registry, Diagnostics& errors) {
  if (stage.kind() != Value::Kind::text) {
    errors.add(stage.at(), fmt::format("'stage' of {} must be text, found {}", owner, found(stage)));
    return nullptr;
  }
  const StageType* type = registry.stages().find(stage.text());
  if (type != nullptr && type->role == StageType::Role::source) return type;
  std::vector<std::string> names;
  for (const auto& [name, other] : registry.stages()) {
    if (other.role == StageType::Role::source) names.push_back(name);
  }
  const auto nearest = nearest_name(stage.text(), names);
  errors.add(stage.at(),
             fmt::format("'{}' is no source{}", stage.text(), nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  return nullptr;
}

// Removes the mixture's keys from `table`, leaving the source's parameters.
void take_weight(Value& table, Child& child, Diagnostics& errors) {
  const Value* weight = table.find("weight");
  if (weight == nullptr) return;
  if (weight->is_number() && weight->number() > 0) {
    child.weight = weight->number();
  } else {
    errors.add(weight->at(), fmt::format("'weight' of {} must be a number above 0, found {}", child.name, found(*weight)));
  }
  table.erase("weight");
}

void make_child(Value table, const StageSite& mixture, Child& child, Diagnostics& errors) {
  StageSite site = mixture;
  site.name += "." + child.name;
  site.at = table.at();
  const std::string owner = fmt::format("[{}.{}]", site.graph, site.name);
  if (table.kind() != Value::Kind::table || table.find("stage") == nullptr) {
    errors.add(table.at(),
               fmt::format("{} must be a table with a `stage`, such as {{ stage = \"read_folder\", path = \"...\" }}", owner));
    return;
  }
  for (const std::string& key : sampling_keys()) {
    const auto member = std::find_if(table.table().begin(), table.table().end(), [&](const Member& m) { return m.key == key; });
    if (member == table.table().end()) continue;
    errors.add(member->at, fmt::format("{}: '{}' holds for a whole mixture: put it into [{}.{}]{}", owner, key, mixture.graph,
                                       mixture.name, way_out(key)));
    table.erase(key);
  }
  take_weight(table, child, errors);
  const StageType* type = find_type(*table.find("stage"), owner, *mixture.registry, errors);
  table.erase("stage");
  if (type == nullptr) return;
  try {
    child.source = std::static_pointer_cast<Source>(type->create(table, site, errors));
  } catch (Error& error) {
    throw error.in(child.name);
  }
}

}  // namespace

std::vector<Child> make_children(const Value& list, const StageSite& site, Diagnostics& errors) {
  std::vector<Child> children;
  if (list.kind() != Value::Kind::array || list.array().empty()) {
    errors.add(list.at(), fmt::format("'sources' must be a list of tables, found {}",
                                      list.kind() == Value::Kind::array ? "an empty one" : found(list)));
    return children;
  }
  for (const Value& table : list.array()) {
    Child& child = children.emplace_back();
    child.name = fmt::format("sources[{}]", children.size() - 1);
    make_child(table, site, child, errors);
  }
  return children;
}

std::vector<std::string> unite_classes(std::vector<Child>& children) {
  const std::vector<std::string> first = children.front().source->classes();
  std::set<std::string> names(first.begin(), first.end());
  bool all_equal = true;
  for (Child& child : children) {
    const std::vector<std::string> own = child.source->classes();
    if (own.empty() != first.empty()) {
      fail(ErrorKind::usage, "{} has classes, {} has none: they cannot be mixed",
           own.empty() ? children.front().name : child.name, own.empty() ? child.name : children.front().name);
    }
    all_equal = all_equal && own == first;
    names.insert(own.begin(), own.end());
  }
  if (all_equal) return first;
  const std::vector<std::string> united(names.begin(), names.end());
  for (Child& child : children) {
    for (const std::string& name : child.source->classes()) {
      child.labels.push_back(static_cast<std::int32_t>(std::lower_bound(united.begin(), united.end(), name) - united.begin()));
    }
  }
  return united;
}

}  // namespace millrace
