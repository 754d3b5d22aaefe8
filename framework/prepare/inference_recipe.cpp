#include "prepare/inference_recipe.h"

#include <algorithm>

#include "millrace/loss.h"
#include "millrace/util/label_values.h"
#include "millrace/util/sample_cache.h"
#include "plugin/loss_params.h"
#include "toml/document.h"
#include "weights/weights.h"

namespace millrace {
namespace {

// The table with defaults for its missing keys.
Value with_defaults(const Value& table, const Value& defaults, const std::vector<ParamInfo>& infos) {
  Value all = defaults;
  for (const Member& member : table.table()) {
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const ParamInfo& each) { return each.name == member.key; });
    const bool nested = info != infos.end() && !info->members.empty() && member.value.kind() == Value::Kind::table;
    all.set(member.key, nested ? with_defaults(member.value, info->member_defaults, info->members) : member.value);
  }
  return all;
}

bool has_port(const std::vector<Port>& ports, std::string_view payload) {
  return std::any_of(ports.begin(), ports.end(), [payload](const Port& port) { return port.payload == payload; });
}

// Whether predictions come from the stage's output.
bool leads_to_predictions(const StageType& type) {
  const auto gives = [&](std::string_view payload) { return has_port(type.outputs, payload); };
  return gives(payload::kImageChunk) || gives(payload::kBatch) || gives(payload::kPredictions);
}

class InferenceRecipeReader {
 public:
  InferenceRecipeReader(const Pipeline& pipeline, const GraphBuild& build) : pipeline_(pipeline), build_(build) {}

  std::optional<InferenceRecipe> read() {
    recipe_.graph = build_.plan().name;
    if (!read_stages()) return std::nullopt;
    read_run();
    read_network();
    read_source();
    return std::move(recipe_);
  }

 private:
  bool read_stages() {
    const GraphPlan& plan = build_.plan();
    bool behind = false, reads = false;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const StageType& type = *plan.stages[s].type;
      reads = reads || type.role == StageType::Role::source;
      behind = behind || type.role == StageType::Role::batcher;
      const bool counts = type.role != StageType::Role::source && type.role != StageType::Role::batcher;
      if (!counts || !leads_to_predictions(type) || is_cache(s)) continue;
      if (build_.trains()) {
        if (behind) continue;
        if (is_random(s) && has_port(type.inputs, payload::kSampleChunk)) return false;
        if (is_random(s)) continue;
      }
      (behind ? recipe_.predict : recipe_.prepare).push_back(stage_use(plan.stages[s]));
    }
    return reads && behind;
  }

  // The stages after `batch` are not made yet.
  const Stage* made(std::size_t s) const { return build_.stages()[s].empty() ? nullptr : build_.stages()[s].front().get(); }
  bool is_cache(std::size_t s) const { return dynamic_cast<const SampleCache*>(made(s)) != nullptr; }
  bool is_random(std::size_t s) const {
    const auto* transform = dynamic_cast<const SampleTransform*>(made(s));
    return transform != nullptr && transform->is_random();
  }

  static InferenceRecipe::StageUse stage_use(const StagePlan& plan) {
    InferenceRecipe::StageUse use{plan.name, plan.type->name, with_defaults(plan.table, plan.type->defaults, plan.type->params),
                                  place_of_table(plan)};
    if (plan.type->takes_loss) use.table.erase("loss");
    return use;
  }

  void read_run() {
    recipe_.seed = pipeline_.run.seed;
    recipe_.precision = pipeline_.run.precision;
    const Value* run = pipeline_.resolved.find("run");
    if (const Value* written = run ? run->find("precision") : nullptr) recipe_.precision_at = written->at();
    for (const GraphPlan& graph : pipeline_.graphs) {
      for (const StagePlan& stage : graph.stages) read_sink(stage);
    }
  }

  // Stores the format of its output, not the place.
  void read_sink(const StagePlan& stage) {
    if (stage.type->recipe_role != RecipeRole::sink || recipe_.sinks.find(stage.type->name)) return;
    Value table = stage.table;
    for (const ParamInfo& info : stage.type->params) {
      if (!info.in_recipes) table.erase(info.name);
    }
    recipe_.sinks.set(stage.type->name, std::move(table));
  }

  void read_network() {
    recipe_.network = pipeline_.network_table;
    ParamSet<NetworkParams> set;
    NetworkParams::describe(set);
    for (const ParamInfo& info : set.infos()) recipe_.network.erase(info.name);
    Diagnostics ignored;  // reported when it was read before
    if (const auto document = read_document(pipeline_.network_params.use, {}, ignored)) recipe_.document = *document;
    recipe_.document.erase("published");  // the URL of other weights
    const Network& network = *pipeline_.network;
    const auto list = [](const std::vector<double>& numbers) { return Value(Array(numbers.begin(), numbers.end())); };
    recipe_.input.set("height", Value(network.input.height));
    recipe_.input.set("width", Value(network.input.width));
    recipe_.input.set("channels", Value(network.input.channels));
    recipe_.input.set("mean", list(network.mean));
    recipe_.input.set("deviation", list(network.deviation));
  }

  void read_source() {
    recipe_.classes = build_.data().classes;
    const std::vector<StagePlan>& stages = build_.plan().stages;
    const auto source = std::find_if(stages.begin(), stages.end(),
                                     [](const StagePlan& stage) { return stage.type->role == StageType::Role::source; });
    const Value *classes = source->table.find("classes"), *ignored = source->table.find("ignored");
    recipe_.classes_at = classes ? classes->at() : place_of_table(*source);
    recipe_.target_at = ignored ? ignored->at() : place_of_table(*source);
    const TargetSpec& target = build_.data().target;
    if (target.kind == TargetSpec::Kind::none) return;
    const bool of_classes = target.kind == TargetSpec::Kind::classes;
    recipe_.paired = !of_classes && source->table.find("labels") != nullptr;  // else each image is its own target
    recipe_.target.set("kind", Value(of_classes ? "classes" : "image"));
    recipe_.target.set("scale", Value(target.scale));
    if (!of_classes) return;
    recipe_.target.set("ids", ids_of(target));
    if (Array nowhere = ignored_of(target); !nowhere.empty()) recipe_.target.set("ignored", Value(std::move(nowhere)));
    const std::vector<std::string>& colours = build_.data().colours;
    if (!colours.empty()) recipe_.target.set("colours", Value(Array(colours.begin(), colours.end())));
  }

  // Values of no class that the file declares.
  Array ignored_of(const TargetSpec& target) const {
    Array values;
    const auto* const names = dynamic_cast<const NamesLabelValues*>(build_.data().source);
    for (std::size_t value = 0; names != nullptr && value < target.classes.size(); ++value) {
      if (target.classes[value] == target.ignored && names->names(static_cast<std::uint8_t>(value)))
        values.emplace_back(static_cast<std::int64_t>(value));
    }
    return values;
  }

  static Value ids_of(const TargetSpec& target) {
    std::vector<Array> ids;
    for (std::size_t value = 0; value < target.classes.size(); ++value) {
      const std::size_t of = target.classes[value];
      if (of == target.ignored) continue;
      ids.resize(std::max(ids.size(), of + 1));
      ids[of].emplace_back(static_cast<std::int64_t>(value));
    }
    return Value(Array(ids.begin(), ids.end()));
  }

  const Pipeline& pipeline_;
  const GraphBuild& build_;
  InferenceRecipe recipe_;
};

using Builds = std::vector<std::unique_ptr<GraphBuild>>;

const GraphBuild& recipe_graph(const Pipeline& pipeline, const Builds& builds) {
  const auto first = [&](auto&& fits) -> const GraphBuild* {
    const auto found =
        std::find_if(builds.begin(), builds.end(), [&](const auto& build) { return !build->trains() && fits(*build); });
    return found == builds.end() ? nullptr : found->get();
  };
  const auto* build =
      first([&](const GraphBuild& each) { return pipeline.best.has_value() && each.plan().name == pipeline.best->graph; });
  if (build == nullptr) build = first([](const GraphBuild& each) { return has_reports(each.plan()); });
  if (build == nullptr) build = first([](const GraphBuild&) { return true; });
  return build == nullptr ? *builds.front() : *build;
}

// In the form of a stage's table; an empty table if no stage of the graph takes a loss.
Value loss_in(const GraphPlan& plan) {
  for (const StagePlan& stage : plan.stages) {
    if (!stage.type->takes_loss) continue;
    const Value* const given = stage.table.find("loss");
    return given ? *given : Value(kDefaultLoss);
  }
  return {};
}

// Names that are not allowed in recipes are left out; the numbers are predicted all the same.
bool are_recipe_texts(const Value& names) {
  const auto may_stand = [](const Value& name) { return name.kind() == Value::Kind::text && is_recipe_text(name.text()); };
  return names.kind() == Value::Kind::array && std::ranges::all_of(names.array(), may_stand);
}

constexpr const char *kSink = "write_features", *kColumns = "columns";  // keys that hold the names of numbers

// If targets are columns of a list, their names become those of the predicted numbers, unless the file sets others.
void name_numbers(const GraphPlan& main, InferenceRecipe& recipe) {
  Value* const given = recipe.sinks.find(kSink);
  Value sink = given != nullptr ? *given : Value();
  if (const Value* const columns = sink.find(kColumns)) {
    if (are_recipe_texts(*columns)) return;
    sink.erase(kColumns);
  } else {
    const auto is_source = [](const StagePlan& stage) { return stage.type->role == StageType::Role::source; };
    const auto source = std::ranges::find_if(main.stages, is_source);
    const Value* const numbers = source == main.stages.end() ? nullptr : source->table.find("numbers");
    if (numbers == nullptr || !are_recipe_texts(*numbers)) return;
    sink.set(kColumns, *numbers);
  }
  recipe.sinks.set(kSink, std::move(sink));
}

// Reads the meaning of the network's output from the loss.
void read_loss(const GraphBuild& main, InferenceRecipe& recipe) {
  CompileRequest request;
  main.add_requests(request);
  if (request.losses.empty()) return;
  const LossInfo& info = request.losses.front().loss->info();
  recipe.loss = info.name;
  const bool image = main.data().target.kind == TargetSpec::Kind::image;
  recipe.output = info.target == LossTarget::labels    ? "classes"
                  : info.target == LossTarget::classes ? "map"
                  : image                              ? "image"
                                                       : "numbers";
}

Value stages_table(const InferenceRecipe& recipe) {
  Value tables;
  for (const auto* stages : {&recipe.prepare, &recipe.predict}) {
    for (const InferenceRecipe::StageUse& stage : *stages) {
      Value table;
      table.set("stage", Value(stage.type));
      for (const Member& member : stage.table.table()) table.set(member.key, member.value);
      tables.set(stage.name, std::move(table));
    }
  }
  return tables;
}

Value stage_names(const std::vector<InferenceRecipe::StageUse>& stages) {
  Array names;
  for (const InferenceRecipe::StageUse& stage : stages) names.emplace_back(stage.name);
  return Value(std::move(names));
}

}  // namespace

std::optional<InferenceRecipe> inference_recipe_of(const Pipeline& pipeline, const Builds& builds) {
  if (!pipeline.network || builds.empty()) return std::nullopt;
  std::optional<InferenceRecipe> recipe = InferenceRecipeReader(pipeline, recipe_graph(pipeline, builds)).read();
  if (!recipe) return recipe;
  read_loss(*builds.front(), *recipe);
  name_numbers(builds.front()->plan(), *recipe);
  const GraphPlan& figures = recipe_graph(pipeline, builds).plan();
  recipe->measure = loss_in(has_reports(figures) ? figures : builds.front()->plan());
  return recipe;
}

const Value* number_columns(const InferenceRecipe& recipe) {
  const Value* const sink = recipe.sinks.find(kSink);
  return sink == nullptr || sink->kind() != Value::Kind::table ? nullptr : sink->find(kColumns);
}

std::vector<std::string> number_names(const InferenceRecipe& recipe) {
  const Value* const columns = number_columns(recipe);
  std::vector<std::string> names;
  if (columns == nullptr || columns->kind() != Value::Kind::array) return names;
  for (const Value& name : columns->array()) {
    if (name.kind() == Value::Kind::text) names.push_back(name.text());
  }
  return names;
}

std::map<std::string, std::string> metadata_of(const InferenceRecipe& recipe) {
  Value table;
  table.set("version", Value(InferenceRecipe::kVersion));
  table.set("graph", Value(recipe.graph));
  table.set("seed", Value(recipe.seed));
  table.set("precision", Value(recipe.precision));
  table.set("output", Value(recipe.output));
  table.set("loss", Value(recipe.loss));
  const bool measures = recipe.measure.kind() == Value::Kind::text || !recipe.measure.table().empty();
  if (measures) table.set("measure", recipe.measure);
  if (!recipe.unrepeatable.empty()) table.set("unrepeatable", Value(recipe.unrepeatable));
  table.set("batch", Value(recipe.batch));
  table.set("prepare", stage_names(recipe.prepare));
  table.set("predict", stage_names(recipe.predict));
  table.set("input", recipe.input);
  table.set("target", recipe.target);
  table.set("stages", stages_table(recipe));
  table.set("sinks", recipe.sinks);
  table.set("network", recipe.network);
  table.set("document", recipe.document);
  return {{InferenceRecipe::kKey, to_toml(table)}};
}

}  // namespace millrace
