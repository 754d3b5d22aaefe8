#include "config/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/plan.h"
#include "millrace/detail/types.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "util/json.h"

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

Json required_keys(const std::vector<ParamInfo>& params) {
  Json required = Json::array();
  for (const ParamInfo& info : params) {
    if (info.required && info.alternative.empty()) required.push_back(info.name);  // otherwise another key may replace it
  }
  return required;
}

// Required keys of a table, and of tables in it, for files that do not extend another.
Json complete_schema(const std::vector<ParamInfo>& params) {
  const Json required = required_keys(params);
  Json tables = Json::object(), schema = Json::object();
  for (const ParamInfo& info : params) {
    if (info.type != "table") continue;
    Json inside = complete_schema(info.members);
    if (!inside.empty()) tables[info.name] = std::move(inside);
  }
  if (!required.empty()) schema["required"] = required;
  if (!tables.empty()) schema["properties"] = tables;
  return schema;
}

Json reference() { return {{"$ref", "#/definitions/reference"}}; }

// In place of any value, a text may compute it, or remove it from an extended file.
Json or_reference(const Json& schema) { return {{"anyOf", {schema, reference()}}}; }

Json object_schema(const std::vector<ParamInfo>& params, const Value& defaults);

Json number_schema(const ParamInfo& info, const char* type) {
  Json schema = {{"type", type}};
  if (info.low) schema["minimum"] = *info.low;
  if (info.high) schema["maximum"] = *info.high;
  return schema;
}

Json pair_schema(const Json& element) {
  const Json pair = {{"type", "array"}, {"items", or_reference(element)}, {"minItems", 2}, {"maxItems", 2}};
  return {{"anyOf", {pair, element}}};
}

Json text_schema(const ParamInfo& info) { return info.choices.empty() ? Json{{"type", "string"}} : Json{{"enum", info.choices}}; }

// The schema of a single value of the parameter's type. `type`: as in ParamInfo::type, without "list of".
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

Json list_schema(const ParamInfo& info, std::string_view element) {
  const Json item = type_schema(info, element);
  Json list = {{"type", "array"}, {"items", element == "texts" && info.choices.empty() ? item : or_reference(item)}};
  if (info.length > 0) list["minItems"] = list["maxItems"] = info.length;
  Json forms = Json::array();
  forms.push_back(list);
  if (info.or_one) forms.push_back(item);
  if (element == "numbers" && !info.choices.empty()) forms.push_back(text_schema(info));
  if (info.by_name) forms.push_back({{"type", "object"}, {"additionalProperties", or_reference(item)}});
  return forms.size() == 1 ? list : Json{{"anyOf", forms}};
}

Json param_schema(const ParamInfo& info, const Value* preset) {
  constexpr std::string_view kList = "list of ";
  Json schema;
  if (info.type == "table") {
    schema = object_schema(info.members, preset ? *preset : info.member_defaults);
  } else if (info.type == "list of tables") {
    schema = {{"type", "array"}, {"items", object_schema(info.members, info.member_defaults)}};
    schema["items"]["required"] = required_keys(info.members);  // lists are not merged
  } else if (info.type.starts_with(kList)) {
    schema = list_schema(info, std::string_view(info.type).substr(kList.size()));
  } else {
    schema = type_schema(info, info.type);
  }
  if (!schema.empty()) schema = or_reference(schema);
  if (info.type == "table" && info.or_one) {
    const ParamInfo& first = info.members.front();
    schema["anyOf"].insert(schema["anyOf"].begin(), param_schema(first, nullptr));
    if (preset != nullptr) preset = preset->find(first.name);
  }
  std::string text = info.text;
  if (!info.unit.empty()) text += (text.empty() ? "in " : " (") + info.unit + (text.empty() ? "" : ")");
  if (!text.empty()) schema["description"] = text;
  if (preset && !info.required) schema["default"] = to_json(*preset);
  return schema;
}

// Keys and their types, but not required keys: a file that extends another contains only its changes.
Json object_schema(const std::vector<ParamInfo>& params, const Value& defaults) {
  Json properties = Json::object();
  for (const ParamInfo& info : params) properties[info.name] = param_schema(info, defaults.find(info.name));
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

std::string definition(const std::string& stage) { return "stage-" + stage; }
Json reference_to(const std::string& stage) { return {{"$ref", "#/definitions/" + definition(stage)}}; }

// The keys of all optimizers, or of all losses. A shared key accepts the values of each, and has the first one's description.
template <class Types>
Json keys_of_all(const char* kind, const Types& types) {
  Json all = Json::object();
  for (const auto& [name, type] : types) {
    for (const ParamInfo& info : type.params) {
      Json described = param_schema(info, nullptr);
      const std::string text = described.value("description", "");
      described["description"] = fmt::format("{} {}{}{}", kind, name, text.empty() ? "" : ": ", text);
      if (!all.contains(info.name)) {
        all[info.name] = described;
        continue;
      }
      Json& known = all[info.name];
      if (!known.contains("anyOf")) continue;  // already accepts anything
      if (!described.contains("anyOf")) known.erase("anyOf");
      for (const Json& form : described.value("anyOf", Json::array())) {
        Json& forms = known["anyOf"];
        if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
      }
    }
  }
  return all;
}

Json names_of(const auto& types) {
  Json names = Json::array();
  for (const auto& [name, type] : types) names.push_back(name);
  return names;
}

// A table that names an optimizer has the optimizer's keys.
void add_optimizers(Json& schema, const Registry& registry) {
  Json& properties = schema["properties"];
  const Json keys = keys_of_all("optimizer", registry.optimizers());
  for (const auto& [name, key] : keys.items()) {
    if (!properties.contains(name)) properties[name] = key;  // the stage's own keys take precedence
  }
  properties["type"]["anyOf"] = {{{"enum", names_of(registry.optimizers())}}, reference()};
}

// The table `loss`, or the name of a loss alone.
void add_losses(Json& schema, const Registry& registry) {
  const Json name = {{"enum", names_of(registry.losses())}};
  Json properties = keys_of_all("loss", registry.losses());
  properties["type"] = or_reference(name);
  properties["reduction"] = or_reference({{"enum", {"mean", "sum"}}});
  const Json table = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  const Json loss = {name, table, reference()};
  schema["properties"]["loss"]["anyOf"] = loss;
  if (!schema["properties"].contains("auxiliary")) return;
  schema["properties"]["auxiliary"]["anyOf"][0]["items"]["properties"]["loss"]["anyOf"] = loss;
}

Json stage_schema(const StageType& type, const Registry& registry) {
  Json schema = object_schema(type.params, type.defaults);
  if (type.takes_optimizer) add_optimizers(schema, registry);
  for (const ParamInfo& info : type.params) {
    if (info.shared) add_optimizers(schema["properties"][info.name]["anyOf"][0]["items"], registry);
  }
  if (type.takes_loss) add_losses(schema, registry);
  schema["description"] = type.text;
  schema["properties"]["stage"] = {{"type", "string"}, {"description", "the stage's type; default: the table's name"}};
  schema["properties"]["from"] = {{"type", {"string", "array"}},
                                  {"description", "the stage (or stage.port) that feeds it; default: the nearest before it"}};
  return schema;
}

// A table for each observer, or whether it is enabled.
Json observers_schema(const Registry& registry) {
  Json properties = Json::object();
  for (const auto& [name, type] : registry.observers()) {
    properties[name] = {{"anyOf", {object_schema(type.params, type.defaults), {{"type", "boolean"}}, reference()}},
                        {"description", type.text}};
  }
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

// The keys of every source.
Json any_source(const Registry& registry) {
  std::vector<std::pair<std::string, StageType>> sources;
  for (const auto& [name, type] : registry.stages()) {
    if (type.role == StageType::Role::source) sources.emplace_back(name, type);
  }
  return {{"type", "object"}, {"properties", keys_of_all("source", sources)}, {"additionalProperties", false}};
}

// A stage's table is checked by its type, or else by its name.
Json graph_schema(const Registry& registry) {
  Json by_name = {
      {"flow", or_reference({{"type", "array"}, {"items", {{"type", "string"}}}, {"description", "stages, in order"}})},
      {"every", {{"type", "string"}, {"description", kEveryForms}}},
      {"before",
       or_reference({{"type", "boolean"}, {"description", "whether two batches are tried before the first epoch (true)"}})}};
  Json cases = Json::array(), names = Json::array();
  for (const auto& [name, type] : registry.stages()) {
    names.push_back(name);
    cases.push_back(
        {{"if", {{"required", {"stage"}}, {"properties", {{"stage", {{"const", name}}}}}}}, {"then", reference_to(name)}});
  }
  const Json named = {{"type", "object"}, {"allOf", cases}, {"properties", {{"stage", or_reference({{"enum", names}})}}}};
  for (const auto& [name, type] : registry.stages()) {
    by_name[name] = {{"if", {{"required", {"stage"}}}}, {"then", named}, {"else", reference_to(name)}};
  }
  // If the source is not named, it follows from [data].
  if (!by_name.contains("read"))
    by_name["read"] = {{"if", {{"required", {"stage"}}}}, {"then", named}, {"else", any_source(registry)}};
  for (auto& [name, key] : by_name.items()) {
    if (key.contains("if")) key = {{"if", {{"type", "string"}}}, {"then", reference()}, {"else", key}};
  }
  return {{"type", "object"}, {"properties", by_name}, {"additionalProperties", named}};
}

// Required keys of stages in files that do not extend another: by the table's name, and by its type.
void add_complete_graph(Json& definitions, const Registry& registry) {
  Json by_name = Json::object(), cases = Json::array();
  for (const auto& [name, type] : registry.stages()) {
    const Json complete = complete_schema(type.params);
    if (!complete.empty()) {
      cases.push_back({{"if", {{"required", {"stage"}}, {"properties", {{"stage", {{"const", name}}}}}}}, {"then", complete}});
    }
    by_name[name] = {{"if", {{"required", {"stage"}}}}, {"then", {{"$ref", "#/definitions/complete-stage"}}}, {"else", complete}};
  }
  if (!by_name.contains("read")) by_name["read"] = {{"$ref", "#/definitions/complete-stage"}};
  Json complete_stage = Json::object();
  if (!cases.empty()) complete_stage["allOf"] = cases;
  definitions["complete-stage"] = complete_stage;
  complete_stage["required"] = {"stage"};  // for a table whose name is not a type
  definitions["complete-graph"] = {{"properties", by_name}, {"additionalProperties", complete_stage}};
}

// A table of the file other than graphs, such as [run]: its keys, and which of them are required.
template <class Params>
void add_table(const char* name, Json& all, Json& complete) {
  ParamSet<Params> set;
  Params::describe(set);
  const Params defaults;
  all[name] = object_schema(set.infos(), write_params(set.infos(), &defaults));
  complete[name] = complete_schema(set.infos());
}

// All other tables are graphs if they have a flow, and otherwise variables.
Json where_it_flows(const char* definition) {
  return {{"if", {{"type", "object"}, {"required", {"flow"}}}}, {"then", {{"$ref", std::string("#/definitions/") + definition}}}};
}

}  // namespace

std::string json_schema(const Registry& registry) {
  Json definitions = {{"reference", {{"type", "string"}, {"pattern", "\\$\\{[^}]+\\}|^unset$"}}},
                      {"graph", graph_schema(registry)}};
  for (const auto& [name, type] : registry.stages()) definitions[definition(name)] = stage_schema(type, registry);
  add_complete_graph(definitions, registry);
  Json all = {{"extends", {{"type", "string"}, {"description", "a file whose tables this one changes"}}},
              {"observe", observers_schema(registry)}};
  Json complete = {{"observe", Json::object()}};
  add_table<RunParams>("run", all, complete);
  add_table<StopParams>("stop", all, complete);
  add_table<PlateauParams>("plateau", all, complete);
  add_table<CheckpointParams>("checkpoint", all, complete);
  add_table<NetworkParams>("network", all, complete);
  all["network"].erase("additionalProperties");  // variables of the network
  // A file that extends another may leave out inherited keys, and its graphs need no flow.
  Json inherited = Json::object();
  for (const char* graph : {"train", "validate", "predict"}) inherited[graph] = or_reference({{"$ref", "#/definitions/graph"}});
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Millrace pipeline"},
                       {"type", "object"},
                       {"properties", all},
                       {"additionalProperties", where_it_flows("graph")},
                       {"if", {{"required", {"extends"}}}},
                       {"then", {{"properties", inherited}}},
                       {"else", {{"properties", complete}, {"additionalProperties", where_it_flows("complete-graph")}}},
                       {"definitions", definitions}};
  return schema.dump(2) + "\n";
}

}  // namespace millrace
