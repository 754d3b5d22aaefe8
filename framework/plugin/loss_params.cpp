#include "plugin/loss_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/load_plugins.h"

namespace millrace {
namespace {

struct Words {
  std::string type = kDefaultLoss, reduction = "mean";
};

// Takes the keys common to all losses; the rest of `table` belongs to the loss.
Words take_words(Value& table, const std::string& owner, Diagnostics& errors) {
  Words words;
  const auto take = [&](const char* key, std::string& word) {
    const Value* value = table.find(key);
    if (value == nullptr) return;
    if (value->kind() == Value::Kind::text) {
      word = value->text();
    } else {
      errors.add(value->at(), fmt::format("{}: '{}' must be text, found {}", owner, key, found(*value)));
    }
    table.erase(key);
  };
  take("type", words.type);
  take("reduction", words.reduction);
  return words;
}

const LossType* find(const std::string& name, const Position& at, const Registry& registry, const std::string& owner,
                     Diagnostics& errors) {
  if (const LossType* type = registry.losses().find(name)) return type;
  const std::vector<std::string> names = registry.losses().names();
  const auto nearest = registry.losses().nearest(name);
  errors.add(at, fmt::format("{}: unknown loss '{}'; {}{}", owner, name,
                             nearest         ? fmt::format("nearest is '{}'", *nearest)
                             : names.empty() ? std::string("no plugin registers one")
                                             : fmt::format("there are '{}'", fmt::join(names, "', '")),
                             skipped_clause(registry, "losses")));
  return nullptr;
}

// Reports and removes misspelt common keys.
void refuse_misspelt_words(Value& table, const LossType& type, const std::string& owner, Diagnostics& errors) {
  std::vector<std::string> keys = {"type", "reduction"};
  for (const ParamInfo& info : type.params) keys.push_back(info.name);
  std::erase_if(table.table(), [&](const Member& member) {
    const bool is_key = std::find(keys.begin(), keys.end(), member.key) != keys.end();
    const auto nearest = is_key ? std::nullopt : nearest_name(member.key, keys);
    if (nearest != "type" && nearest != "reduction") return false;
    errors.add(member.at, fmt::format("{} has no key '{}'; nearest is '{}'", owner, member.key, *nearest));
    return true;
  });
}

// The run replaces the word by numbers after counting; until then classes have equal weights.
void drop_median_weights(Value& table, const LossType& type) {
  const Value* const written = table.find(kClassWeights);
  if (written == nullptr || type.info->target != LossTarget::classes || !is_word(*written, kMedianFrequency)) return;
  table.erase(kClassWeights);
}

StageLoss read(const Value* written, const Registry& registry, const std::string& stage, Diagnostics& errors) {
  Value table = written == nullptr ? Value(Table{}) : *written;
  const std::string owner = stage + ": 'loss'";
  if (table.kind() == Value::Kind::text) table = Value(Table{{"type", table.at(), table}}, table.at());
  if (table.kind() != Value::Kind::table) {
    errors.add(table.at(), fmt::format("{} must be the name of a loss or a table, found {}", owner, found(table)));
    return {};
  }
  const Value* named = table.find("type");
  const Position at = named ? named->at() : table.at();
  const Value* reduction = table.find("reduction");
  const Position reduction_at = reduction ? reduction->at() : table.at();
  const Words words = take_words(table, owner, errors);
  StageLoss made;
  made.add_up = words.reduction == "sum";
  if (words.reduction != "mean" && words.reduction != "sum") {
    errors.add(reduction_at, fmt::format("{}: 'reduction' must be 'mean' or 'sum', found '{}'", owner, words.reduction));
  }
  const std::size_t before = errors.size();
  if (const LossType* type = find(words.type, at, registry, owner, errors)) {
    refuse_misspelt_words(table, *type, owner, errors);
    drop_median_weights(table, *type);
    made.loss = type->create(table, owner + " '" + words.type + "'", errors);
  }
  if (errors.size() != before) made.loss = nullptr;
  return made;
}

}  // namespace

std::vector<AuxiliaryEntry> auxiliary_entries(const Value& stage_table) {
  std::vector<AuxiliaryEntry> entries;
  const Value* list = stage_table.kind() == Value::Kind::table ? stage_table.find("auxiliary") : nullptr;
  if (list == nullptr || list->kind() != Value::Kind::array) return entries;
  for (const Value& entry : list->array()) {
    if (entry.kind() == Value::Kind::table) entries.push_back({entry.find("output"), entry.find("loss")});
  }
  return entries;
}

bool is_word(const Value& value, std::string_view word) { return value.kind() == Value::Kind::text && value.text() == word; }

bool is_default_loss(const Value& loss) {
  const Value* const type = loss.kind() == Value::Kind::table ? loss.find("type") : &loss;
  return type == nullptr || (type->kind() == Value::Kind::text && type->text() == kDefaultLoss);
}

Value measured_loss(Value loss) {
  if (loss.kind() != Value::Kind::table) return loss;
  loss.erase("reduction");
  const Value* const weights = loss.find(kClassWeights);
  if (weights != nullptr && (is_word(*weights, kMedianFrequency) || is_word(*weights, kBalanced))) loss.erase(kClassWeights);
  return loss;
}

Value list_of(const std::vector<double>& numbers, const Position& at) {
  Array list;
  for (const double number : numbers) list.emplace_back(number, at);
  return Value(std::move(list), at);
}

void check_loss_table(const Value& stage_table, const Registry& registry, const std::string& owner, Diagnostics& errors) {
  if (stage_table.kind() != Value::Kind::table) return;
  read(stage_table.find("loss"), registry, owner, errors);
  for (const AuxiliaryEntry& entry : auxiliary_entries(stage_table)) {
    if (entry.loss != nullptr) read(entry.loss, registry, owner + ": 'auxiliary'", errors);
  }
}

StageLoss make_loss(const LossParams& params, const StageSite& site) {
  if (site.registry == nullptr) fail(ErrorKind::usage, "a loss: no registry was given to find it in");
  Diagnostics errors;
  StageLoss loss = read(&params.loss, *site.registry, StageTypeAccess::owner_of(site), errors);
  errors.throw_if_any();
  return loss;
}

void AuxiliaryLoss::describe(ParamSet<AuxiliaryLoss>& set) {
  set.add("output", &AuxiliaryLoss::output)
      .text("layer that no other layer reads, marked `auxiliary` in the network's file; default: the network's result");
  set.add("weight", &AuxiliaryLoss::weight).range(0).text("factor on the loss in the sum");
  set.add("loss", &AuxiliaryLoss::loss).text("like the stage's `loss`, its default");
}

std::vector<StageLoss> make_losses(const LossParams& params, const std::vector<AuxiliaryLoss>& auxiliary, const StageSite& site) {
  std::vector<StageLoss> losses = {make_loss(params, site)};
  for (const AuxiliaryLoss& each : auxiliary) {
    const bool own = each.loss.kind() != Value::Kind::table || !each.loss.table().empty();
    StageLoss loss = own ? make_loss({each.loss}, site) : losses.front();
    loss.output = find_loss_output(*site.network, each.output);
    loss.weight = each.weight;
    loss.name = each.output.empty() ? loss.loss->info().name : each.output;
    losses.push_back(std::move(loss));
  }
  return losses;
}

std::optional<LayerPort> find_loss_output(const Network& network, const std::string& name) {
  if (name.empty() || name == network.layers.back().name) return std::nullopt;
  const auto named = std::ranges::find(network.layers, name, &Layer::name);
  if (named == network.layers.end()) {
    std::vector<std::string> names;
    for (const Layer& layer : network.layers) names.push_back(layer.name);
    const auto nearest = nearest_name(name, names);
    fail(ErrorKind::usage, "network '{}' has no layer '{}'{}", network.name, name,
         nearest ? fmt::format("; nearest is '{}'", *nearest) : "");
  }
  const LayerPort value = static_cast<int>(named - network.layers.begin());
  for (const Layer& layer : network.layers) {
    const auto reads = [&](LayerPort input) { return input.layer == value.layer; };
    if (std::ranges::none_of(layer.inputs, reads)) continue;
    fail(ErrorKind::usage, "layer '{}' takes the output of '{}': an auxiliary loss is measured at an output that no layer takes",
         layer.name, name);
  }
  return value;
}

}  // namespace millrace
