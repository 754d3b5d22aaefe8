// Types that a pipeline can name, and the plugins that registered them.
#include "millrace/plugin.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "network/definition.h"
#include "network/native_layers.h"
#include "plugin/loss_params.h"
#include "plugin/optimizer_params.h"
#include "plugin/registry_content.h"
#include "toml/document.h"

namespace millrace {
namespace {

constexpr std::string_view kBiasName = "bias";

// The trained parameters in the layers of a type's examples. Mistakes in examples are left to the tests made from them.
struct TrainedParameters {
  bool weights = false, biases = false;
  int rank = 4;  // smallest rank of the weights

  void add(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) {
      if (parameter.statistic) continue;
      (parameter.name == kBiasName ? biases : weights) = true;
      if (parameter.name != kBiasName) rank = std::min(rank, parameter.shape.rank());
    }
  }
};

TrainedParameters trained_by(const LayerType& type) {
  TrainedParameters trained;
  for (const LayerExample& example : type.examples) {
    try {
      Diagnostics errors;
      const std::optional<Value> table = parse_toml(example.table, "example", errors);
      if (table) trained.add(type.plan(*table, example.inputs, errors).parameters);
    } catch (const Error&) {
      continue;
    }
  }
  return trained;
}

bool has_key(const std::vector<ParamInfo>& params, std::string_view name) {
  return std::ranges::find(params, name, &ParamInfo::name) != params.end();
}

// The keys that the type does not declare itself.
std::vector<ParamInfo> keys_for(const LayerType& type, const TrainedParameters& trained) {
  ParamSet<ops::WeightParams> set;
  ops::WeightParams::describe(set);
  std::vector<ParamInfo> keys;
  for (const ParamInfo& key : set.infos()) {
    const bool of_bias = key.name.starts_with(kBiasName);
    if ((of_bias ? trained.biases : trained.weights) && !has_key(type.params, key.name)) keys.push_back(key);
  }
  return keys;
}

void apply_keys(const ops::WeightParams& params, Parameter& parameter, Diagnostics& errors) {
  if (parameter.statistic) return;
  const bool bias = parameter.name == kBiasName;
  const Value& initialiser = bias ? params.bias_initialiser : params.initialiser;
  parameter.initialiser = ops::read_initialiser(initialiser, parameter.initialiser, parameter.shape.rank(), errors);
  parameter.trainable = parameter.trainable && (bias ? params.bias_trainable : params.trainable);
  parameter.rate_factor *= bias ? params.bias_rate_factor : params.rate_factor;
  parameter.decay_factor *= bias ? params.bias_decay_factor : params.decay_factor;
}

// Reads `keys` and reports keys of the table that are neither among them nor the type's own.
class KeyReader {
 public:
  KeyReader(const LayerType& type, const std::vector<ParamInfo>& keys) : owner_("op '" + type.name + "'"), own_(type.params) {
    for (ParamInfo info : type.params) {
      info.required = false;
      info.read = [](const ParamInfo&, void*, const Value&, Diagnostics&) {};  // the type reads it
      all_.push_back(std::move(info));
    }
    all_.insert(all_.end(), keys.begin(), keys.end());
  }

  ops::WeightParams read(const Value& table, Diagnostics& errors) const {
    ops::WeightParams params;
    read_params(all_, table, &params, owner_, errors);
    return params;
  }
  Value own_keys(Value table) const {
    take_other_keys(own_, table);
    return table;
  }

 private:
  const std::string owner_;
  const std::vector<ParamInfo> own_;
  std::vector<ParamInfo> all_;
};

// Keys of every layer with trained parameters, built-in or not: initialisers of weights and biases, whether they are trained, and
// their factors for rate and decay. Adds the keys of ops::WeightParams to a layer type whose examples have trained parameters.
// `bias_` keys apply to a parameter named "bias", the others to all others. Keys that the type declares itself stay its own.
LayerType with_parameter_keys(LayerType type) {
  const TrainedParameters trained = trained_by(type);
  const std::vector<ParamInfo> keys = keys_for(type, trained);
  if (keys.empty()) return type;
  type.plan = [reader = KeyReader(type, keys), rank = trained.rank, plan = std::move(type.plan)](
                  const Value& table, const std::vector<Shape>& inputs, Diagnostics& errors) {
    if (table.kind() != Value::Kind::table) return plan(table, inputs, errors);
    const std::size_t before = errors.size();
    const ops::WeightParams params = reader.read(table, errors);
    LayerPlan planned = plan(reader.own_keys(table), inputs, errors);
    if (inputs.empty()) {  // shapes are unknown: only collect mistakes
      ops::read_initialiser(params.initialiser, {}, rank, errors);
      ops::read_initialiser(params.bias_initialiser, {}, 1, errors);
    }
    for (Parameter& parameter : planned.parameters) apply_keys(params, parameter, errors);
    return errors.size() == before ? planned : LayerPlan{};
  };
  const ops::WeightParams defaults;
  const Value more = write_params(keys, &defaults);
  for (const auto& member : more.table()) type.defaults.set(member.key, member.value);
  type.params.insert(type.params.end(), keys.begin(), keys.end());
  return type;
}

void check_parts(const StageType& type, const Value& table, const Registry& registry, const std::string& owner,
                 Diagnostics& errors) {
  if (type.takes_optimizer) check_optimizer(type, table, registry, owner, errors);
  if (type.takes_loss) check_loss_table(table, registry, owner, errors);
}

// Wraps create() so that mistakes in keys of an optimizer or a loss are refused like those in the stage's.
auto with_checked_parts(const StageType& type) {
  return [described = std::make_shared<StageType>(type)](const Value& table, AnyContext context,
                                                         Diagnostics& errors) -> std::shared_ptr<Stage> {
    const std::size_t before = errors.size();
    const StageSite& site = context.site();
    if (site.registry) check_parts(*described, table, *site.registry, StageTypeAccess::owner_of(site), errors);
    return errors.size() == before ? described->create(table, context, errors) : nullptr;
  };
}

// Validates and completes a type that is added.
template <class Type>
Type checked(Type type) {
  return type;
}

StageType checked(StageType type) {
  if (type.takes_optimizer || type.takes_loss) type.create = with_checked_parts(type);
  return type;
}

LayerType checked(LayerType type) {
  if (type.examples.empty())
    fail(ErrorKind::usage, "the layer type '{}' has no examples, which its tests are made from", type.name);
  return with_parameter_keys(std::move(type));
}

LossType checked(LossType type) {
  if (type.examples.empty()) fail(ErrorKind::usage, "the loss '{}' has no examples, which its tests are made from", type.name);
  return type;
}

}  // namespace

void detail::refuse_type(std::string_view kind, const std::string& name) {
  if (name.empty()) fail(ErrorKind::usage, "a {} without a name", kind);
  fail(ErrorKind::usage, "the {} '{}' is registered already", kind, name);
}

Registry::Registry() : content_(std::make_shared<RegistryContent>()) { register_native_layers(*this); }

template <std::derived_from<TypeDescription> Type>
void Registry::add(Type type) {
  content_->add(checked(std::move(type)));
}
template void Registry::add(StageType type);
template void Registry::add(LayerType type);
template void Registry::add(LossType type);
template void Registry::add(OptimizerType type);
template void Registry::add(ObserverType type);
template void Registry::add(BackendType type);
template void Registry::add(CommunicatorType type);
template void Registry::add(StorageType type);
template void Registry::add(AnnotationType type);

const Catalogue<StageType>& Registry::stages() const { return content_->catalogue<StageType>(); }
const Catalogue<LayerType>& Registry::layers() const { return content_->catalogue<LayerType>(); }
const Catalogue<LossType>& Registry::losses() const { return content_->catalogue<LossType>(); }
const Catalogue<OptimizerType>& Registry::optimizers() const { return content_->catalogue<OptimizerType>(); }
const Catalogue<ObserverType>& Registry::observers() const { return content_->catalogue<ObserverType>(); }
const Catalogue<BackendType>& Registry::backends() const { return content_->catalogue<BackendType>(); }
const Catalogue<CommunicatorType>& Registry::communicators() const { return content_->catalogue<CommunicatorType>(); }
const Catalogue<StorageType>& Registry::storages() const { return content_->catalogue<StorageType>(); }
const Catalogue<AnnotationType>& annotations(const Registry& registry) {
  return RegistryContent::of(registry).catalogue<AnnotationType>();
}

Storage& storage_of(const Registry& registry, std::string_view url) {
  const std::string scheme(url_scheme(url));
  if (const StorageType* type = registry.storages().find(scheme)) return *type->storage;
  const std::vector<std::string> names = registry.storages().names();
  const auto near = registry.storages().nearest(scheme);
  fail(ErrorKind::usage, "'{}': no plugin reads '{}://'{}; there {} {}", url, scheme,
       near ? fmt::format(" (nearest is '{}')", *near) : "", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
}

}  // namespace millrace
