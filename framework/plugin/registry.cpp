// What can be named in a pipeline, and who registered it.
#include "millrace/plugin.h"

#include <fmt/format.h>
#include "network/ops.h"
#include "plugin/loss_params.h"
#include "plugin/parameter_keys.h"
#include "plugin/rule_params.h"

namespace millrace {
namespace {

// An object that keeps the library loaded that its code lies in.
template <class T>
std::shared_ptr<T> keep_library(const std::shared_ptr<void>& library, std::shared_ptr<T> object) {
  if (!library || !object) return object;
  struct Holder {
    std::shared_ptr<void> library;  // declared first, so destroyed last
    std::shared_ptr<T> object;
  };
  auto holder = std::make_shared<Holder>(Holder{library, std::move(object)});
  T* raw = holder->object.get();
  return std::shared_ptr<T>(std::move(holder), raw);
}

template <class Map, class Type>
void insert(Map& map, Type type, const char* what) {
  const std::string name = type.name;
  if (name.empty()) fail(ErrorKind::usage, "a {} without a name", what);
  if (!map.emplace(name, std::move(type)).second) fail(ErrorKind::usage, "the {} '{}' is registered already", what, name);
}

template <class Map>
auto lookup(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

Registry::Registry() { register_layers(*this); }

namespace {

void check_parts(const StageType& type, const Value& table, const Registry& registry, const std::string& owner,
                 Diagnostics& errors) {
  if (type.takes_rule) check_rule(type, table, registry, owner, errors);
  if (type.takes_loss) check_loss_table(table, registry, owner, errors);
}

// create() that refuses mistakes in the keys of a rule or a loss as it refuses those in the stage's.
auto with_checked_parts(const StageType& type) {
  return [described = std::make_shared<StageType>(type)](const Value& table, const StageContext& context,
                                                         Diagnostics& errors) -> std::shared_ptr<Stage> {
    const std::size_t before = errors.size();
    if (context.registry) check_parts(*described, table, *context.registry, StageTypeAccess::owner_of(context), errors);
    return errors.size() == before ? described->create(table, context, errors) : nullptr;
  };
}

}  // namespace

void Registry::add(StageType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  if (type.takes_rule || type.takes_loss) type.create = with_checked_parts(type);
  type.create = [library = loading_, create = std::move(type.create)](const Value& table, const StageContext& context,
                                                                      Diagnostics& errors) {
    return keep_library(library, create(table, context, errors));
  };
  insert(stages_, std::move(type), "stage");
}

void Registry::add(BackendType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  type.create = [library = loading_, create = std::move(type.create)]() { return keep_library(library, create()); };
  insert(backends_, std::move(type), "backend");
}

void Registry::add(CommunicatorType type) { insert(communicators_, std::move(type), "communicator"); }

// A network may outlive the registry, and with it the layer that says how it is computed.
void Registry::add(LayerType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  if (type.examples.empty())
    fail(ErrorKind::usage, "the layer type '{}' has no examples, which its tests are made from", type.name);
  type = with_parameter_keys(std::move(type));
  type.plan = [library = loading_, plan = std::move(type.plan)](const Value& table, const std::vector<Shape>& inputs,
                                                                Diagnostics& errors) {
    LayerPlan planned = plan(table, inputs, errors);
    if (library && planned.portable) {
      const PortableLayer* layer = planned.portable.get();
      using Held = std::pair<std::shared_ptr<void>, std::shared_ptr<const PortableLayer>>;
      auto held = std::make_shared<Held>(library, std::move(planned.portable));
      planned.portable = std::shared_ptr<const PortableLayer>(std::move(held), layer);
    }
    return planned;
  };
  insert(layers_, std::move(type), "layer type");
}

void Registry::add(RuleType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  type.create = [library = loading_, create = std::move(type.create)](const Value& table, const std::string& owner,
                                                                      Diagnostics& errors) {
    return keep_library(library, create(table, owner, errors));
  };
  insert(rules_, std::move(type), "update rule");
}

void Registry::add(LossType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  if (type.examples.empty()) fail(ErrorKind::usage, "the loss '{}' has no examples, which its tests are made from", type.name);
  type.info = keep_library(loading_, std::move(type.info));
  type.create = [library = loading_, create = std::move(type.create)](const Value& table, const std::string& owner,
                                                                      Diagnostics& errors) {
    return keep_library(library, create(table, owner, errors));
  };
  insert(losses_, std::move(type), "loss");
}

void Registry::add(ObserverType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  type.create = [library = loading_, create = std::move(type.create)](const Value& table, const std::string& owner,
                                                                      Diagnostics& errors) {
    return keep_library(library, create(table, owner, errors));
  };
  insert(observers_, std::move(type), "observer");
}

void Registry::add(StorageType type) {
  if (type.plugin.empty()) type.plugin = loading_name_;
  type.storage = keep_library(loading_, std::move(type.storage));
  const std::string scheme = type.scheme;
  if (!storages_.emplace(scheme, std::move(type)).second)
    fail(ErrorKind::usage, "the storage '{}' is registered already", scheme);
}

const StageType* Registry::stage(std::string_view name) const { return lookup(stages_, name); }
const BackendType* Registry::backend(std::string_view name) const { return lookup(backends_, name); }
const CommunicatorType* Registry::communicator(std::string_view name) const { return lookup(communicators_, name); }
const LayerType* Registry::layer(std::string_view name) const { return lookup(layers_, name); }
const LossType* Registry::loss(std::string_view name) const { return lookup(losses_, name); }
const ObserverType* Registry::observer(std::string_view name) const { return lookup(observers_, name); }
const RuleType* Registry::rule(std::string_view name) const { return lookup(rules_, name); }

Storage& Registry::storage(std::string_view url) const {
  const std::string scheme(url_scheme(url));
  if (const StorageType* type = lookup(storages_, scheme)) return *type->storage;
  std::vector<std::string> names;
  for (const auto& [name, type] : storages_) names.push_back(name);
  const auto near = nearest_name(scheme, names);
  fail(ErrorKind::usage, "'{}': no plugin reads '{}://'{}; there {} {}", url, scheme,
       near ? fmt::format(" (nearest is '{}')", *near) : "", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
}

}  // namespace millrace
