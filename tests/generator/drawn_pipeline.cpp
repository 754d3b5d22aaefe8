#include "drawn_pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/checkpoint_plan.h"
#include "config/plan.h"
#include "config/stop_plan.h"
#include "drawing.h"
#include "millrace/layer.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"

namespace millrace::generator {

namespace {

using Maybe = std::optional<Value>;

// A top-level table of a file, read by the framework itself.
struct TopTable {
  const char* name;
  std::vector<ParamInfo> params;
  Value defaults;
};

template <class Params>
TopTable top_table(const char* name) {
  ParamSet<Params> set;
  Params::describe(set);
  const Params defaults{};
  return {name, set.infos(), write_params(set.infos(), &defaults)};
}

const std::vector<TopTable>& top_tables() {
  static const std::vector<TopTable> kTables = {top_table<RunParams>("run"), top_table<StopParams>("stop"),
                                                top_table<PlateauParams>("plateau"), top_table<CheckpointParams>("checkpoint")};
  return kTables;
}

Meanings top_meanings(Task task) {
  const auto one_of = [](std::vector<std::string> texts) {
    return [texts = std::move(texts)](Draw& draw) -> Maybe { return Value(pick(draw, texts)); };
  };
  const Meaning never = [](Draw&) -> Maybe { return std::nullopt; };
  const std::vector<std::string> figures = task == Task::classes ? std::vector<std::string>{"validate.loss", "validate.accuracy"}
                                                                 : std::vector<std::string>{"validate.loss"};
  Meanings meanings;
  for (const char* key : {"stop.figure", "plateau.figure"}) meanings[key] = one_of(figures);
  for (const char* key : {"run.best", "checkpoint.best"}) meanings[key] = one_of({figures.back()});  // they name the same one
  meanings["run.name"] = one_of({"drawn"});
  meanings["run.folder"] = meanings["checkpoint.folder"] = meanings["run.load"] = never;
  meanings["run.epochs"] = [](Draw& draw) -> Maybe { return Value(draw.uniform(0.3, 2.5)); };
  meanings["run.devices"] = one_of({"cpu", "cpu", "cpu*2", "cpu*3"});
  meanings["run.memory"] = one_of({"2 GiB", "500 MB"});
  meanings["run.threads"] = [](Draw& draw) -> Maybe { return Value(draw.integer(1, 4)); };
  meanings["run.io_threads"] = [](Draw& draw) -> Maybe { return Value(draw.integer(1, 4)); };
  meanings["stop.max_time"] = one_of({"1 hour"});
  meanings["checkpoint.every"] = meanings["checkpoint.keep_every"] =
      one_of({"2 steps", "3 steps", "1 epoch", "0.5 epochs", "end"});
  meanings["checkpoint.resume"] = never;  // belongs to another run
  return meanings;
}

void add_top_tables(Drawing& drawing, Value& document) {
  const Meanings meanings = top_meanings(drawing.task);
  for (const TopTable& top : top_tables()) {
    const bool is_run = top.name == std::string_view("run");
    if (!is_run && !drawing.draw.chance(0.15)) continue;
    Value table = drawn_table(top.params, top.defaults, top.name, meanings, drawing.share, drawing.draw);
    if (is_run) {
      if (table.find("devices") == nullptr) table.set("devices", Value("cpu"));
      if (table.find("precision") == nullptr) table.set("precision", Value("fp32"));
      table.set("folder", Value("runs"));
    }
    document.set(top.name, std::move(table));
  }
}

void add_observers(Drawing& drawing, Value& document) {
  Meanings meanings;
  meanings["*.file"] = [](Draw&) -> Maybe { return Value("bad.jsonl"); };
  Value observers;
  for (const auto& [name, type] : drawing.registry.observers()) {
    if (name != "mlflow" && drawing.draw.chance(0.1))
      observers.set(name, drawn_table(type.params, type.defaults, name, meanings, 0.5, drawing.draw));
  }
  if (!observers.table().empty()) document.set("observe", std::move(observers));
}

NetworkSize drawn_network_size(Draw& draw, Task task, const DataSet& data) {
  NetworkSize size;
  size.channels = draw.chance(0.25) ? 1 : 3;
  size.height = static_cast<int>(draw.integer(3, 24));
  size.width = static_cast<int>(draw.integer(3, 24));
  size.outputs = task == Task::numbers ? 2 : task == Task::images ? size.channels : static_cast<int>(DataSet::kClasses.size());
  size.scale = task == Task::images ? data.scale : 1;
  return size;
}

const std::vector<ParamInfo>* params_of(const std::string& type, const Registry& registry) {
  if (const StageType* stage = registry.stages().find(type)) return &stage->params;
  return nullptr;
}

// Keys in a table and its tables, named as in known_keys().
void add_keys(const Value& table, const std::string& owner, std::vector<std::string>& keys) {
  if (table.kind() == Value::Kind::array) {
    for (const Value& each : table.array()) add_keys(each, owner, keys);
  } else if (table.kind() == Value::Kind::table) {
    for (const Member& member : table.table()) {
      keys.push_back(owner + "." + member.key);
      add_keys(member.value, owner + "." + member.key, keys);
    }
  }
}

void add_loss_keys(const Value& loss, std::vector<std::string>& keys) {
  if (loss.kind() == Value::Kind::text) keys.push_back("loss " + loss.text());
  if (const Value* optimizer = loss.find("type")) {
    keys.push_back("loss " + optimizer->text());
    add_keys(loss, optimizer->text(), keys);
  }
}

void add_graph_keys(const Value& graph, const Registry& registry, std::vector<std::string>& keys) {
  for (const Value& entry : graph.find("flow")->array()) {
    const Value* table = graph.find(entry.text());
    const Value* type = table ? table->find("stage") : nullptr;
    const std::string name = type ? type->text() : entry.text();
    keys.push_back("stage " + name);
    if (table == nullptr || params_of(name, registry) == nullptr) continue;
    add_keys(*table, name, keys);
    if (const Value* loss = table->find("loss")) add_loss_keys(*loss, keys);
    if (name != "optimizer") continue;
    const Value* optimizer = table->find("type");
    keys.push_back("optimizer " + (optimizer ? optimizer->text() : "sgd"));
    add_keys(*table, optimizer ? optimizer->text() : "sgd", keys);
  }
}

}  // namespace

Value Drawing::table(const std::string& stage, const Meanings& meanings) const {
  const StageType* type = registry.stages().find(stage);
  return type ? drawn_table(type->params, type->defaults, stage, meanings, share, draw) : Value();
}

void GraphTable::add(const std::string& type, Value table) {
  std::string name = type;
  for (int number = 2; std::any_of(flow_.begin(), flow_.end(), [&](const Value& entry) { return entry.text() == name; });
       ++number)
    name = fmt::format("{}_{}", type, number);
  if (name != type) table.set("stage", Value(type));
  flow_.emplace_back(name);
  if (!table.table().empty()) stages_.emplace_back(name, Position{}, std::move(table));
}

Value GraphTable::finish(Value keys) const {
  keys.set("flow", Value(flow_));
  for (const Member& member : stages_) keys.set(member.key, member.value);
  return keys;
}

DrawnPipeline drawn_pipeline(std::uint64_t seed, std::uint64_t number, const Registry& registry, const DataSet& data) {
  DrawnPipeline drawn{seed, number, {}, {}};
  Draw draw(seed, {.position = number}, hash_text("pipeline"));
  constexpr Task kTasks[] = {Task::classes, Task::classes, Task::numbers, Task::pixels, Task::images};
  const Task task = kTasks[draw.integer(0, 4)];
  const double share = draw.uniform(0.02, 0.4);
  Drawing drawing{draw, registry, data, task, drawn_network_size(draw, task, data), share, {}};
  DrawnNetwork network = drawn_network(draw, registry, task, drawing.network, share);
  drawn.network = std::move(network.document);
  drawing.layers = std::move(network.layers);
  add_top_tables(drawing, drawn.pipeline);
  add_observers(drawing, drawn.pipeline);
  Value use;
  use.set("use", Value("network.toml"));
  if (draw.chance(0.1)) use.set("freeze", list_of({pick(draw, drawing.layers)}));
  drawn.pipeline.set("network", std::move(use));
  GraphTable train;
  add_source(drawing, train);
  add_data_stages(drawing, train, "train", true);
  add_training(drawing, train);
  drawn.pipeline.set("train", train.finish({}));
  if (!draw.chance(0.75)) return drawn;
  GraphTable validate;
  add_source(drawing, validate);
  add_data_stages(drawing, validate, "validate", draw.chance(0.2));
  add_sinks(drawing, validate);
  Value keys;
  static const std::vector<std::string> kEvery = {"epoch", "2 steps", "0.5 epochs", "end"};
  keys.set("every", Value(pick(draw, kEvery)));
  if (draw.chance(0.2)) keys.set("before", Value(draw.chance(0.5)));
  drawn.pipeline.set("validate", validate.finish(std::move(keys)));
  return drawn;
}

std::vector<std::string> known_keys(const Registry& registry) {
  std::vector<std::string> keys;
  for (const TopTable& top : top_tables()) list_keys(top.params, top.name, keys);
  for (const auto& [name, type] : registry.stages()) keys.push_back("stage " + name), list_keys(type.params, name, keys);
  for (const auto& [name, type] : registry.layers()) keys.push_back("layer " + name), list_keys(type.params, name, keys);
  for (const auto& [name, type] : registry.losses()) keys.push_back("loss " + name), list_keys(type.params, name, keys);
  for (const auto& [name, type] : registry.optimizers()) keys.push_back("optimizer " + name), list_keys(type.params, name, keys);
  for (const auto& [name, type] : registry.observers()) list_keys(type.params, name, keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::vector<std::string> keys_of(const DrawnPipeline& drawn, const Registry& registry) {
  std::vector<std::string> keys, known = known_keys(registry);
  for (const Member& member : drawn.pipeline.table()) {
    if (member.key == "observe") {
      for (const Member& observer : member.value.table()) add_keys(observer.value, observer.key, keys);
    } else if (member.value.kind() == Value::Kind::table && member.value.find("flow") != nullptr) {
      add_graph_keys(member.value, registry, keys);
    } else {
      add_keys(member.value, member.key, keys);
    }
  }
  if (const Value* layers = drawn.network.find("layers")) {
    for (const Value& layer : layers->array()) {
      const Value* op = layer.find("op");
      if (op == nullptr) continue;
      keys.push_back("layer " + op->text());
      add_keys(layer, op->text(), keys);
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::erase_if(keys, [&](const std::string& key) { return !std::binary_search(known.begin(), known.end(), key); });
  return keys;
}

std::optional<TwoSources> folder_and_shards(const DrawnPipeline& drawn, const DataSet& data) {
  const Value* train = drawn.pipeline.find("train");
  const Value* read = train ? train->find("read_folder") : nullptr;
  if (read == nullptr) return std::nullopt;
  TwoSources two{drawn, drawn};
  Value folder = *read;
  for (const char* key : {"extensions", "classes", "label", "labels"}) folder.erase(key);
  Value shards = folder;
  shards.set("stage", Value("read_tar"));
  shards.set("path", Value(data.path("shards")));
  two.folder.pipeline.find("train")->set("read_folder", std::move(folder));
  two.shards.pipeline.find("train")->set("read_folder", std::move(shards));
  return two;
}

}  // namespace millrace::generator
