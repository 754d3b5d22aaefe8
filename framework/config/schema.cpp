#include "config/schema.h"

#include "base/json.h"
#include "config/plan.h"
#include "millrace/detail/types.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"

namespace millrace {

namespace {

Json to_json(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::boolean: return value.boolean();
    case Value::Kind::integer: return value.integer();
    case Value::Kind::real: return value.number();
    case Value::Kind::text: return value.text();
    case Value::Kind::array: {
      Json list = Json::array();
      for (const Value& element : value.array()) list.push_back(to_json(element));
      return list;
    }
    case Value::Kind::table: break;
  }
  Json table = Json::object();
  for (const Member& member : value.table()) table[member.key] = to_json(member.value);
  return table;
}

Json object_schema(const std::vector<ParamInfo>& params, const Value& defaults);

Json number_schema(const ParamInfo& info, const char* type) {
  Json schema = {{"type", type}};
  if (info.low) schema["minimum"] = *info.low;
  if (info.high) schema["maximum"] = *info.high;
  return schema;
}

Json pair_schema(const Json& element) {
  const Json pair = {{"type", "array"}, {"items", element}, {"minItems", 2}, {"maxItems", 2}};
  return {{"anyOf", {pair, element}}};
}

Json text_schema(const ParamInfo& info) { return info.choices.empty() ? Json{{"type", "string"}} : Json{{"enum", info.choices}}; }

// What a single value of the parameter's type may be. `type`: as ParamInfo::type, without "list of".
Json type_schema(const ParamInfo& info, std::string_view type) {
  if (type == "number" || type == "numbers") return number_schema(info, "number");
  if (type == "integer" || type == "integers") {
    const Json number = number_schema(info, "integer");
    return info.choices.empty() ? number : Json{{"anyOf", {number, text_schema(info)}}};
  }
  if (type == "text" || type == "texts") return text_schema(info);
  if (type == "true or false") return {{"type", "boolean"}};
  if (type == "[low, high]") return pair_schema(number_schema(info, "number"));
  if (type == "[height, width]") return pair_schema(number_schema(info, "integer"));
  return Json::object();
}

Json param_schema(const ParamInfo& info, const Value* preset) {
  constexpr std::string_view kList = "list of ";
  Json schema;
  if (info.type == "table") {
    schema = object_schema(info.members, preset ? *preset : info.member_defaults);
  } else if (info.type == "list of tables") {
    schema = {{"type", "array"}, {"items", object_schema(info.members, info.member_defaults)}};
  } else if (info.type.starts_with(kList)) {
    const Json item = type_schema(info, std::string_view(info.type).substr(kList.size()));
    schema = {{"type", "array"}, {"items", item}};
    if (info.or_one) schema = {{"anyOf", {schema, item}}};
  } else {
    schema = type_schema(info, info.type);
  }
  if (!schema.empty()) schema = {{"anyOf", {schema, {{"$ref", "#/definitions/reference"}}}}};
  std::string text = info.text;
  if (!info.unit.empty()) text += (text.empty() ? "in " : " (") + info.unit + (text.empty() ? "" : ")");
  if (!text.empty()) schema["description"] = text;
  if (preset && !info.required) schema["default"] = to_json(*preset);
  return schema;
}

Json object_schema(const std::vector<ParamInfo>& params, const Value& defaults) {
  Json properties = Json::object(), required = Json::array();
  for (const ParamInfo& info : params) {
    properties[info.name] = param_schema(info, defaults.find(info.name));
    if (info.required) required.push_back(info.name);
  }
  Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

std::string definition(const std::string& stage) { return "stage-" + stage; }
Json reference_to(const std::string& stage) { return {{"$ref", "#/definitions/" + definition(stage)}}; }

// A table that takes a rule takes its keys. A key that several rules have is described as one of them does.
void add_rules(Json& schema, const Registry& registry) {
  Json names = Json::array();
  for (const auto& [name, rule] : registry.rules()) {
    names.push_back(name);
    for (const ParamInfo& info : rule.params) {
      Json described = param_schema(info, nullptr);
      const std::string text = described.value("description", "");
      described["description"] = "rule " + name + (text.empty() ? "" : ": " + text);
      if (!schema["properties"].contains(info.name)) schema["properties"][info.name] = described;
    }
  }
  schema["properties"]["rule"]["anyOf"] = {{{"enum", names}}, {{"$ref", "#/definitions/reference"}}};
}

// The table `loss`, or the name of a loss alone.
void add_losses(Json& schema, const Registry& registry) {
  Json names = Json::array(), properties = Json::object();
  for (const auto& [name, loss] : registry.losses()) {
    names.push_back(name);
    for (const ParamInfo& info : loss.params) {
      Json described = param_schema(info, nullptr);
      const std::string text = described.value("description", "");
      described["description"] = "loss " + name + (text.empty() ? "" : ": " + text);
      if (!properties.contains(info.name)) properties[info.name] = described;
    }
  }
  properties["rule"] = {{"enum", names}};
  properties["reduction"] = {{"enum", {"mean", "sum"}}};
  const Json table = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  const Json loss = {{{"enum", names}}, table, {{"$ref", "#/definitions/reference"}}};
  schema["properties"]["loss"]["anyOf"] = loss;
  if (!schema["properties"].contains("auxiliary")) return;
  schema["properties"]["auxiliary"]["anyOf"][0]["items"]["properties"]["loss"]["anyOf"] = loss;
}

Json stage_schema(const StageType& type, const Registry& registry) {
  Json schema = object_schema(type.params, type.defaults);
  if (type.takes_rule) add_rules(schema, registry);
  for (const ParamInfo& info : type.params) {
    if (info.shared) add_rules(schema["properties"][info.name]["anyOf"][0]["items"], registry);
  }
  if (type.takes_loss) add_losses(schema, registry);
  schema["description"] = type.text;
  schema["properties"]["stage"] = {{"type", "string"}, {"description", "the stage's type; default: the table's name"}};
  schema["properties"]["from"] = {{"type", {"string", "array"}},
                                  {"description", "the stage (or stage.port) that feeds it; default: the nearest before it"}};
  return schema;
}

// A table for each observer, or whether it listens at all.
Json observers_schema(const Registry& registry) {
  Json properties = Json::object();
  for (const auto& [name, type] : registry.observers()) {
    properties[name] = {{"anyOf", {object_schema(type.params, type.defaults), {{"type", "boolean"}}}},
                        {"description", type.text}};
  }
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

// A stage's table is checked by the type that it names, or else by its own name.
Json graph_schema(const Registry& registry) {
  Json by_name = {
      {"flow", {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", "stages, in order"}}},
      {"every", {{"type", "string"}, {"description", kEveryForms}}},
      {"before", {{"type", "boolean"}, {"description", "whether two batches are tried before the first epoch (true)"}}}};
  Json cases = Json::array(), names = Json::array();
  for (const auto& [name, type] : registry.stages()) {
    names.push_back(name);
    cases.push_back(
        {{"if", {{"required", {"stage"}}, {"properties", {{"stage", {{"const", name}}}}}}}, {"then", reference_to(name)}});
  }
  const Json named = {{"type", "object"}, {"allOf", cases}, {"properties", {{"stage", {{"enum", names}}}}}};
  for (const auto& [name, type] : registry.stages()) {
    by_name[name] = {{"if", {{"required", {"stage"}}}}, {"then", named}, {"else", reference_to(name)}};
  }
  return {{"type", "object"}, {"required", {"flow"}}, {"properties", by_name}, {"additionalProperties", named}};
}

}  // namespace

std::string json_schema(const Registry& registry) {
  ParamSet<RunParams> run;
  RunParams::describe(run);
  const RunParams defaults;
  ParamSet<StopParams> stop;
  StopParams::describe(stop);
  const StopParams no_stop;
  ParamSet<PlateauParams> plateau;
  PlateauParams::describe(plateau);
  const PlateauParams no_plateau;
  ParamSet<CheckpointParams> checkpoint;
  CheckpointParams::describe(checkpoint);
  const CheckpointParams no_checkpoint;
  Json definitions = {{"reference", {{"type", "string"}, {"pattern", "\\$\\{[^}]+\\}"}}}, {"graph", graph_schema(registry)}};
  for (const auto& [name, type] : registry.stages()) definitions[definition(name)] = stage_schema(type, registry);
  ParamSet<NetworkParams> network_keys;
  NetworkParams::describe(network_keys);
  const NetworkParams no_network;
  Json network = object_schema(network_keys.infos(), write_params(network_keys.infos(), &no_network));
  network.erase("additionalProperties");  // variables of the network
  // Most pipelines name the file alone.
  Json& weights = network["properties"]["weights"];
  weights["anyOf"].insert(weights["anyOf"].begin(), Json::object({{"type", "string"}}));
  weights["default"] = "";
  const Json graph_or_variables = {{"if", {{"type", "object"}, {"required", {"flow"}}}},
                                   {"then", {{"$ref", "#/definitions/graph"}}}};
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Millrace pipeline"},
                       {"type", "object"},
                       {"properties",
                        {{"extends", {{"type", "string"}, {"description", "a file whose tables this one changes"}}},
                         {"run", object_schema(run.infos(), write_params(run.infos(), &defaults))},
                         {"stop", object_schema(stop.infos(), write_params(stop.infos(), &no_stop))},
                         {"plateau", object_schema(plateau.infos(), write_params(plateau.infos(), &no_plateau))},
                         {"checkpoint", object_schema(checkpoint.infos(), write_params(checkpoint.infos(), &no_checkpoint))},
                         {"observe", observers_schema(registry)},
                         {"network", network}}},
                       {"additionalProperties", graph_or_variables},
                       {"definitions", definitions}};
  return schema.dump(2) + "\n";
}

}  // namespace millrace
