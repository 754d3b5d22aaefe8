#include "network/network_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "network/published.h"

namespace millrace {
namespace {

void check_keys(const Value& table, const std::string& owner, const std::vector<std::string>& keys, Diagnostics& errors) {
  for (const Member& member : table.table()) {
    if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
    report_unknown_name(owner, "key", member.key, keys, member.at, errors);
  }
}

// A member of that kind; null if it is missing or of another kind.
const Value* part(const Value& table, const std::string& owner, const char* key, Value::Kind kind, bool required,
                  Diagnostics& errors) {
  const Value* value = table.find(key);
  if (!value) {
    if (required) errors.add(table.at(), fmt::format("{} needs '{}', {}", owner, key, to_string(kind)));
    return nullptr;
  }
  if (value->kind() == kind) return value;
  errors.add(value->at(), fmt::format("'{}' of {} must be {}, found {}", key, owner, to_string(kind), found(*value)));
  return nullptr;
}

const Array* layer_list(const Value& table, const std::string& owner, Diagnostics& errors) {
  const Value* layers = part(table, owner, "layers", Value::Kind::array, true, errors);
  if (!layers) return nullptr;
  if (layers->array().empty()) errors.add(layers->at(), fmt::format("{} has no layers", owner));
  return &layers->array();
}

BlockDefinition read_block(const Member& member, Diagnostics& errors) {
  BlockDefinition block;
  block.name = member.key;
  block.at = member.at;
  const std::string owner = "block '" + member.key + "'";
  if (member.value.kind() != Value::Kind::table) {
    errors.add(member.value.at(), fmt::format("{} must be a table, found {}", owner, found(member.value)));
    return block;
  }
  check_keys(member.value, owner, {"defaults", "layers"}, errors);
  if (const Value* defaults = part(member.value, owner, "defaults", Value::Kind::table, false, errors))
    block.defaults = *defaults;
  block.layers = layer_list(member.value, owner, errors);
  block.references = references(member.value);
  return block;
}

}  // namespace

NetworkDocument read_network_document(const Value& document, const std::string& name, Diagnostics& errors) {
  NetworkDocument result;
  const std::string owner = "network '" + name + "'";
  if (document.kind() != Value::Kind::table) {
    errors.add(document.at(), fmt::format("{} must be a table, found {}", owner, found(document)));
    return result;
  }
  check_keys(document, owner, {"defaults", "input", "layers", "block", "extends", "published"}, errors);
  if (part(document, owner, "published", Value::Kind::table, false, errors) != nullptr) published_weights(document, errors);
  if (const Value* defaults = part(document, owner, "defaults", Value::Kind::table, false, errors)) result.defaults = *defaults;
  result.input = part(document, owner, "input", Value::Kind::table, true, errors);
  result.layers = layer_list(document, owner, errors);
  if (const Value* layers = document.find("layers")) result.layers_at = layers->at();
  for (const char* key : {"defaults", "input", "layers"}) {
    const Value* value = document.find(key);
    if (!value) continue;
    for (Reference& reference : references(*value)) result.references.push_back(std::move(reference));
  }
  if (const Value* blocks = part(document, owner, "block", Value::Kind::table, false, errors)) {
    for (const Member& member : blocks->table()) result.blocks.emplace(member.key, read_block(member, errors));
  }
  return result;
}

}  // namespace millrace
