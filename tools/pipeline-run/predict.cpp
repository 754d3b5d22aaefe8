#include "predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "config/data_parts.h"
#include "config/plan.h"
#include "millrace/detail/types.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/files.h"
#include "millrace/util/output_file.h"
#include "millrace/util/text.h"
#include "network/load.h"
#include "photograph_sizes.h"
#include "predict_images.h"
#include "prediction_folder.h"
#include "prepare/inference_recipe.h"
#include "weights/fetched_weights.h"
#include "weights/tensor_file.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// A text escaped for a pipeline file, where ${...} would be a reference.
std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 2, "${") == 0) out += '$';
    out += text[at];
  }
  return out;
}

// Escapes its texts.
Value escaped(const Value& value) {
  Value out = value;
  if (value.kind() == Value::Kind::text) out = Value(escaped(value.text()));
  if (value.kind() == Value::Kind::array) {
    for (Value& element : out.array()) element = escaped(element);
  }
  if (value.kind() == Value::Kind::table) {
    for (Member& member : out.table()) member.value = escaped(member.value);
  }
  return out;
}

// The names of the numbers that the network predicts, a list of texts; null if unknown.
const Value* names_of_numbers(const InferenceRecipe& recipe) {
  const Value* const sink = recipe.sinks.find("write_features");
  const Value* const names = sink != nullptr && sink->kind() == Value::Kind::table ? sink->find("columns") : nullptr;
  const auto is_text = [](const Value& name) { return name.kind() == Value::Kind::text; };
  return names != nullptr && names->kind() == Value::Kind::array && std::ranges::all_of(names->array(), is_text) ? names
                                                                                                                 : nullptr;
}

// The first matching entry; "" if there is none, or the folder is unreadable: its source reports it.
template <class Entries>
std::string first_of(const std::string& folder, const Extensions& extensions) {
  std::error_code error;
  for (Entries entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (extensions.match(entry->path().filename().string())) return entry->path().string();
  }
  return {};
}

bool has_shards(const std::string& folder) {
  const std::string shard = first_of<fs::directory_iterator>(folder, Extensions({"tar"}));
  if (shard.empty()) return false;
  const std::string image = first_of<fs::recursive_directory_iterator>(folder, usual_images());
  if (image.empty()) return true;
  fail(ErrorKind::usage,
       "--predict: '{0}' holds images, such as '{1}', and shards, such as '{2}': name the shards, '{0}/*.tar', or a folder with "
       "only images",
       folder, image, shard);
}

const char* type_of(const std::string& data) {
  std::error_code ignored;
  const bool pattern = data.find('{') != std::string::npos && !fs::exists(data, ignored);
  if (Extensions({"tar"}).match(data) || pattern || has_shards(data)) return "read_tar";
  if (is_list(data)) return "read_list";
  if (fs::is_regular_file(data, ignored)) {
    fail(ErrorKind::usage,
         "--predict: '{}' is a file of another kind: name images (.jpg, .png), a folder of them, a list (.csv, .tsv, .jsonl) or "
         "shards (.tar)",
         data);
  }
  return "read_folder";
}

Value texts(const std::vector<std::string>& names) {
  Array list;
  for (const std::string& name : names) list.emplace_back(escaped(name));
  return Value(std::move(list));
}

// By the network's class number.
std::string name_of_class(const InferenceRecipe& recipe, std::size_t number) {
  return number < recipe.classes.size() ? escaped(recipe.classes[number]) : std::to_string(number);
}

const Array& values_of_classes(const InferenceRecipe& recipe) {
  const Value* const ids = recipe.target.find("ids");
  if (ids == nullptr || ids->kind() != Value::Kind::array) {
    fail(ErrorKind::usage, "--labels: the weights do not record the classes of label image values");
  }
  return ids->array();
}

// Shards with label images of class numbers, as `pipeline-data pack` writes them.
Value label_members(const std::string& data, const InferenceRecipe& recipe) {
  Array classes;
  for (std::size_t c = 0; c < values_of_classes(recipe).size(); ++c) classes.emplace_back(name_of_class(recipe, c));
  Value table;
  table.set("stage", Value("read_tar"));
  table.set("path", Value(escaped(data)));
  table.set("labels", Value("none"));
  table.set("target", Value("classes"));
  table.set("classes", Value(std::move(classes)));
  return table;
}

// Pairs with label images, whose values are classes as in the weights' run.
Value label_images(const std::string& data, const std::string& labels, const InferenceRecipe& recipe) {
  const Array& ids = values_of_classes(recipe);
  const Value* const colours = recipe.target.find("colours");
  Array classes;
  for (std::size_t c = 0; c < ids.size(); ++c) {
    Value entry;
    entry.set("name", Value(name_of_class(recipe, c)));
    entry.set("ids", ids[c]);
    if (colours != nullptr && c < colours->array().size()) entry.set("colour", colours->array()[c]);
    classes.push_back(std::move(entry));
  }
  Value table;
  table.set("stage", Value("read_pairs"));
  table.set("images", Value(escaped(data)));
  table.set("labels", Value(escaped(absolute_path(labels))));
  table.set("classes", Value(std::move(classes)));
  if (const Value* const ignored = recipe.target.find("ignored")) table.set("ignored", *ignored);
  return table;
}

// Pairs with the network's target images.
Value target_images(const std::string& data, const std::string& labels, const InferenceRecipe& recipe) {
  Value table;
  table.set("stage", Value("read_pairs"));
  table.set("images", Value(escaped(data)));
  table.set("labels", Value(escaped(absolute_path(labels))));
  table.set("target", Value("image"));
  if (const Value* const scale = recipe.target.find("scale")) table.set("target_scale", *scale);
  return table;
}

void check_labels(const std::string& type, const std::string& labels, const InferenceRecipe& recipe) {
  const bool of_pixels = recipe.output == "map", of_images = restores(recipe);
  if (recipe.output == "numbers" && (type != "read_list" || labels != "column")) {
    fail(ErrorKind::usage,
         "--labels: the numbers of images are columns of a list (.csv, .tsv, .jsonl): --predict LIST --labels column");
  }
  if (recipe.output == "image" && !of_images) {
    fail(ErrorKind::usage,
         "--labels: the network's pictures have no targets; a graph of the run's own file, with metrics, compares them");
  }
  if (of_pixels && type == "read_list") {
    fail(ErrorKind::usage,
         "--labels: a list names no label images: name two folders, --predict IMAGES --labels LABELS, or shards that hold them "
         "too, --labels shards");
  }
  if (of_images && type != "read_folder") {
    fail(ErrorKind::usage,
         "--labels: pictures are compared with those of a folder: name two folders, --predict IMAGES --labels TARGETS");
  }
  if (of_pixels || of_images) {
    std::error_code ignored;
    if (type == "read_tar" && labels == "shards") return;
    if (type == "read_folder" && (labels.find("://") != std::string::npos || fs::is_directory(labels, ignored))) return;
    if (type == "read_folder") {
      fail(ErrorKind::usage, "--labels: '{}' is not a folder: name the folder of {}", labels,
           of_pixels ? "label images" : "the target images");
    }
  }
  const std::string fits = type == "read_folder" ? "path" : type == "read_list" ? "column" : "shards";
  if (labels != fits) {
    fail(ErrorKind::usage, "--labels: expected {}, since {} provides the labels, found '{}'", fits, type, labels);
  }
}

Value source_of_one(const std::string& data, const std::string& labels, const InferenceRecipe& recipe) {
  const std::string type = type_of(data);
  if (!labels.empty()) check_labels(type, labels, recipe);
  if (!labels.empty() && restores(recipe)) return target_images(data, labels, recipe);
  if (!labels.empty() && recipe.output == "map") {
    return type == "read_tar" ? label_members(data, recipe) : label_images(data, labels, recipe);
  }
  Value table;
  table.set("stage", Value(type));
  table.set("path", Value(escaped(data)));
  if (!labels.empty() && recipe.output == "numbers") {
    if (const Value* const names = names_of_numbers(recipe)) table.set("numbers", escaped(*names));
    return table;
  }
  table.set("labels", Value(labels.empty() ? "none" : labels));
  if (!labels.empty() && !recipe.classes.empty()) table.set("classes", texts(recipe.classes));
  return table;
}

// The table of a source that reads `data`, absolute paths or URLs, one after the other. `labels`: "", none; "path", "column" or
// "shards", labels of folders, lists and shards, or label images in shards; "column" also of numbers in lists; else a folder of
// label images, or of target pictures. Throws Error(usage) if data are ambiguous, or do not fit the network's result.
Value source_of(const std::vector<std::string>& data, const std::string& labels, const InferenceRecipe& recipe) {
  if (data.size() == 1) return source_of_one(data.front(), labels, recipe);
  Array sources;
  for (const std::string& each : data) sources.push_back(source_of_one(each, labels, recipe));
  Value table;
  table.set("stage", Value("mix"));
  table.set("sources", Value(std::move(sources)));
  return table;
}

// Bad samples allowed in a run: an unreadable image does not affect the others.
constexpr std::int64_t kAnyNumber = 1'000'000'000;

struct Sink {
  std::string type, key, name;  // the key of its output path, and the path; "": the stage chooses it
};

Sink sink_of(const InferenceRecipe& recipe, const std::string& weights) {
  if (recipe.output == "classes") return {"write_classes", "file", ""};
  if (recipe.output == "map") return {"write_masks", "folder", "masks"};
  if (recipe.output == "image") return {"write_images", "folder", "images"};
  if (recipe.output == "numbers") return {"write_features", "file", "features.safetensors"};
  fail(ErrorKind::usage, "--predict: '{}' does not record the meaning of the network's result: its output is \"{}\"", weights,
       recipe.output);
}

// Removes values replaced by --set: a value that the user chose is not the recipe's, and may be larger. The reason found when the
// weights were written may no longer hold; valid ones are found again.
void leave_to_user(InferenceRecipe& recipe, const std::vector<std::string>& overrides) {
  constexpr std::string_view kGraph = "predict.";
  for (const std::string& override : overrides) {
    const std::string_view place = std::string_view(override).substr(0, override.find('='));
    const std::size_t dot = place.rfind('.');
    if (!place.starts_with(kGraph) || dot < kGraph.size()) continue;
    const std::string_view stage = place.substr(kGraph.size(), dot - kGraph.size()), key = place.substr(dot + 1);
    for (auto* const uses : {&recipe.prepare, &recipe.predict}) {
      for (InferenceRecipe::StageUse& use : *uses) {
        if (use.name == stage && use.table.erase(key)) recipe.unrepeatable.clear();
      }
    }
    Value* const sink = recipe.sinks.find(stage);
    if (sink != nullptr && sink->kind() == Value::Kind::table && sink->erase(key)) recipe.unrepeatable.clear();
  }
}

// `measures`: its loss is needed too. Ensures that no unchecked file determines what runs.
InferenceRecipe recipe_in(const PredictRequest& request, bool measures, const Registry& registry) {
  const std::string& weights = request.weights;
  const std::string file = local_weights(
      {weights, ""}, registry, [](const std::string&) {}, request.notice);
  if (auto recipe = recipe_from(read_tensors_metadata(file), file)) {
    leave_to_user(*recipe, request.overrides);
    const std::string mistake = mistake_in_recipe(*recipe, registry, measures);
    if (mistake.empty()) return *std::move(recipe);
    fail(ErrorKind::data,
         "--predict: images cannot be prepared as '{}' requires: {}. Nothing was run. Write a pipeline "
         "with a graph that makes predictions, and run it with --weights",
         weights, mistake);
  }
  fail(ErrorKind::usage,
       "--predict: '{}' does not record how images are prepared. It is not from Millrace, or from an older version, or its "
       "run had no validation and random decoding. Write a pipeline with a graph that makes predictions, and run it with "
       "--weights",
       weights);
}

// The stage that compares the network's result with the truth.
std::string comparison_of(const InferenceRecipe& recipe, const Registry& registry) {
  if (restores(recipe)) return "write_quality";
  if (recipe.output != "numbers") return "write_evaluation";
  return predicts_labels(recipe, registry) ? "write_label_scores" : "write_regression";
}

// One pipeline and its files.
struct Part {
  std::string suffix;                // suffix of its files: "-360x480"; "" if it is the only one
  const SizeGroup* group = nullptr;  // its images; null: all, at the size of validation
  bool listed = false;               // they have a separate list
};

class Prediction {
 public:
  // `recipe`: how images are prepared here.
  Prediction(const PredictRequest& request, const PredictedImages& images, const InferenceRecipe& recipe, const Part& part,
             const Registry& registry)
      : request_(request),
        images_(images),
        recipe_(recipe),
        registry_(registry),
        part_(part),
        sized_(part.group ? at_size(recipe, part.group->shape) : SizedNetwork{recipe.document, recipe.network}),
        folder_(fs::absolute(request.folder)) {}

  // Returns the pipeline's path.
  std::string write(MadeFiles& files) const {
    const fs::path network_file = path("network", "toml"), file = path("pipeline", "toml");
    files.write(network_file, fmt::format("{}\n\n{}", kMadeByPredict, to_toml(sized_.document)));
    Diagnostics errors;
    const auto network = load_network(network_file.string(), sized_.variables, registry_, errors, {}, kPredict);
    errors.throw_if_any();
    if (part_.listed) files.write(path("images", "csv"), list_of(part_.group->urls));
    const std::string head =
        fmt::format("{} It prepares images as [{}] of the run that wrote the weights{}.\n\n", kMadeByPredict, recipe_.graph,
                    restores(recipe_) ? ",\n# without the stages that made an image of its target" : "");
    files.write(file, head + to_toml(pipeline(*network)));
    return file.string();
  }

 private:
  fs::path path(const char* name, const char* extension) const {
    return fs::path(request_.folder) / fmt::format("{}{}.{}", name, part_.suffix, extension);
  }

  Value pipeline(const Network& network) const {
    Value file, run, ledger, observe;
    run.set("name", Value("predict"));
    run.set("seed", Value(recipe_.seed));
    run.set("precision", Value(recipe_.precision));
    run.set("folder", Value(""));
    ledger.set("file", Value(escaped((folder_ / fmt::format("quarantine{}.jsonl", part_.suffix)).string())));
    observe.set("ledger", std::move(ledger));
    file.set("run", std::move(run));
    file.set("observe", std::move(observe));
    file.set("network", network_table());
    file.set("predict", graph(network));
    return file;
  }

  Value network_table() const {
    Value table;
    table.set("use", Value(fmt::format("network{}.toml", part_.suffix)));
    table.set("weights", Value(escaped(absolute_path(request_.weights))));
    for (const Member& member : sized_.variables.table()) table.set(member.key, escaped(member.value));
    return table;
  }

  Value source() const {
    if (!part_.listed) return source_of(images_.data, request_.labels, recipe_);
    return source_of({(folder_ / fmt::format("images{}.csv", part_.suffix)).string()}, "", recipe_);
  }

  Value graph(const Network& network) const {
    const Sink sink = sink_of(recipe_, request_.weights);
    Value table, batch;
    Array flow{Value("read")};
    table.set("flow", Value());  // first
    table.set("read", source());
    add(recipe_.prepare, flow, table);
    batch.set("size", batch_size());
    batch.set("bad_sample_budget", Value(kAnyNumber));
    flow.emplace_back("batch");
    table.set("batch", std::move(batch));
    add(recipe_.predict, flow, table);
    if (recipe_.predict.empty()) flow.emplace_back("forward");
    if (!request_.labels.empty()) add_figures(network, flow, table);
    flow.emplace_back(sink.type);
    table.set(sink.type, sink_table(sink, network));
    table.set("flow", Value(std::move(flow)));
    return table;
  }

  // At another size a batch has about as many pixels as in validation, but at least one image.
  Value batch_size() const {
    if (recipe_.batch <= 0) return Value("auto");
    if (part_.group == nullptr) return Value(recipe_.batch);
    const auto extent = [&](const char* key) { return recipe_.input.find(key) ? recipe_.input.find(key)->integer() : 1; };
    const ImageShape& shape = part_.group->shape;
    const std::int64_t pixels = std::int64_t{shape.height} * shape.width;
    return Value(std::clamp<std::int64_t>(recipe_.batch * extent("height") * extent("width") / pixels, 1, recipe_.batch));
  }

  // With the loss that the validation measured.
  void add_figures(const Network& network, Array& flow, Value& tables) const {
    if (recipe_.measure.kind() == Value::Kind::table && recipe_.measure.table().empty()) {
      fail(ErrorKind::usage,
           "--labels: '{}' does not record the validation loss of its run: an older Millrace wrote it. Run a graph of the "
           "run's own file with --weights",
           request_.weights);
    }
    const std::string forward = recipe_.predict.empty() ? "forward" : flow.back().text();
    Value* const found = tables.find(forward);
    Value table = found != nullptr ? *found : Value();
    table.set("loss", escaped(recipe_.measure));
    tables.set(forward, std::move(table));
    const std::string sink = comparison_of(recipe_, registry_);
    const Value* const given = recipe_.sinks.find(sink);
    Value evaluation = given != nullptr ? escaped(*given) : Value();
    if (const Value* const names = names_of(network); names != nullptr && recipe_.output == "numbers") {
      evaluation.set("columns", escaped(*names));
    }
    evaluation.set("folder", Value(escaped((folder_ / "evaluation").string())));
    tables.set(sink, std::move(evaluation));
    flow.emplace_back("metrics");
    flow.emplace_back(sink);
  }

  static void add(const std::vector<InferenceRecipe::StageUse>& stages, Array& flow, Value& tables) {
    for (const InferenceRecipe::StageUse& stage : stages) {
      flow.emplace_back(stage.name);
      Value table;
      table.set("stage", Value(stage.type));
      for (const Member& member : stage.table.table()) table.set(member.key, escaped(member.value));
      tables.set(stage.name, std::move(table));
    }
  }

  Value sink_table(const Sink& sink, const Network& network) const {
    const Value* given = recipe_.sinks.find(sink.type);
    Value table = given != nullptr && given->kind() == Value::Kind::table ? escaped(*given) : Value();
    table.erase("format");  // follows from the file's name
    table.set(sink.key, Value(escaped((folder_ / sink.name).string())));
    if (sink.type == "write_features") {
      table.set("layer", Value(network.layers.back().name));
      if (names_of(network) == nullptr) table.erase("columns");
    }
    if (sink.type == "write_masks" && table.find("labels") == nullptr) add_label_values(table);
    const bool pictures = sink.key == "folder";
    if (pictures && table.find("names") == nullptr) table.set("names", Value("path"));
    if (pictures && table.find("names")->text() == "path") table.set("below", Value(escaped(images_.below)));
    return table;
  }

  // Names of the network's numbers; null if unknown, such as when the file meant another layer's.
  const Value* names_of(const Network& network) const {
    const Value* const names = names_of_numbers(recipe_);
    const std::int64_t numbers = network.layers.back().output.elements();
    return names != nullptr && static_cast<std::int64_t>(names->array().size()) == numbers ? names : nullptr;
  }

  // For picture = "labels": the first label image value of each class.
  void add_label_values(Value& table) const {
    const Value* const ids = recipe_.target.find("ids");
    if (ids == nullptr || ids->kind() != Value::Kind::array) return;
    Array labels;
    for (const Value& values : ids->array()) {
      if (values.kind() != Value::Kind::array || values.array().empty()) return;
      labels.push_back(values.array().front());
    }
    table.set("labels", Value(std::move(labels)));
  }

  const PredictRequest& request_;
  const PredictedImages& images_;
  const InferenceRecipe& recipe_;
  const Registry& registry_;
  const Part& part_;
  const SizedNetwork sized_;
  const fs::path folder_;
};

std::string size_of(const SizeGroup& group) { return fmt::format("{}x{}", group.shape.height, group.shape.width); }

// Each size has a list of its images, which cannot name members of shards or targets.
void refuse_several_sizes(const std::vector<SizeGroup>& groups, bool compared) {
  const bool packed = std::any_of(groups.begin(), groups.end(), [](const SizeGroup& group) { return group.in_archives; });
  if (!packed && !compared) return;
  fail(ErrorKind::usage, "--predict: the {} of {} sizes, such as '{}' ({}) and '{}' ({}). A network takes one size at a time: {}",
       packed ? "shards have images" : "images are", groups.size(), groups[0].first, size_of(groups[0]), groups[1].first,
       size_of(groups[1]),
       packed ? "unpack them into a folder, whose images may have any size"
              : "with --labels, put the images of each size into a folder of their own, or leave out --labels");
}

// Several runs write their pictures to one folder.
void refuse_equal_names(const std::vector<SizeGroup>& groups) {
  std::set<std::string> stems;
  for (const SizeGroup& group : groups) {
    for (const std::string& url : group.urls) {
      if (stems.insert(fs::path(url).replace_extension().string()).second) continue;
      fail(ErrorKind::usage,
           "--predict: '{}' and another image differ only in their extensions, so their pictures would have the same name: "
           "rename one of them",
           url);
    }
  }
}

// Each size of photographs has its own pipeline.
std::vector<std::string> write_sizes(const PredictRequest& request, const PredictedImages& images, const InferenceRecipe& recipe,
                                     const Registry& registry, MadeFiles& files) {
  std::vector<SizeGroup> groups;
  {
    MadeFiles to_look_with;
    const std::string file = Prediction(request, images, recipe, {}, registry).write(to_look_with);
    groups =
        group_by_size(load_pipeline(file, request.overrides, registry, {.other_weights = false, .made_by = kPredict}), registry);
  }
  for (const SizeGroup& group : groups) check_size(recipe, group, registry);
  // Images of one size can share a batch: the decoding stage must know the size.
  const auto write = [&](const Part& part) {
    return Prediction(request, images, with_stated_size(recipe, part.group->file, registry), part, registry).write(files);
  };
  if (groups.size() == 1) return {write({"", &groups.front(), false})};
  refuse_several_sizes(groups, !request.labels.empty());
  refuse_equal_names(groups);
  std::vector<std::string> made;
  for (const SizeGroup& group : groups) made.push_back(write({"-" + size_of(group), &group, true}));
  return made;
}

// The list columns with the numbers.
void require_names_of_numbers(const PredictRequest& request, const InferenceRecipe& recipe) {
  constexpr std::string_view kKey = "predict.read.numbers=";
  const bool are_given = std::ranges::any_of(request.overrides, [&](const auto& each) { return each.starts_with(kKey); });
  if (request.labels.empty() || recipe.output != "numbers" || are_given || names_of_numbers(recipe) != nullptr) return;
  fail(ErrorKind::usage,
       "--labels: '{}' does not name the columns of its numbers: name them, as --set 'predict.read.numbers=[\"age\"]' does",
       request.weights);
}

}  // namespace

std::vector<std::string> write_prediction(const PredictRequest& request, const Registry& registry, MadeFiles& files) {
  if (request.weights.empty()) fail(ErrorKind::usage, "--predict needs the weights of a run: --weights FILE");
  const std::vector<std::string> named = named_images(request.images);
  std::vector<std::string> paths = named;
  paths.insert(paths.end(), {request.labels, request.weights, request.folder});
  for (const std::string& path : paths) {
    if (is_utf8(path)) continue;
    fail(ErrorKind::usage,
         "--predict: '{}' is not UTF-8, as the generated pipeline must be: rename it, or name a "
         "link to it",
         line_text(path));
  }
  if (!request.labels.empty() && std::ranges::any_of(named, is_image_file)) {
    fail(ErrorKind::usage, "--labels: name the folder or the list of the images, not single files");
  }
  std::vector<std::string> read = named;
  if (std::error_code ignored; fs::is_directory(request.labels, ignored)) read.push_back(absolute_path(request.labels));
  check_prediction_folder(request.folder, read);
  const InferenceRecipe recipe = without_training_degradation(recipe_in(request, !request.labels.empty(), registry), registry);
  require_names_of_numbers(request, recipe);
  const PredictedImages images = readable_images(named, request.folder, files);
  if (takes_own_size(recipe, registry)) return write_sizes(request, images, recipe, registry, files);
  return {Prediction(request, images, recipe, {}, registry).write(files)};
}

}  // namespace millrace
