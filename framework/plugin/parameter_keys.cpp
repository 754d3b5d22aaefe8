#include "plugin/parameter_keys.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "config/document.h"
#include "layers/definition.h"
#include "millrace/error.h"

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

}  // namespace

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

}  // namespace millrace
