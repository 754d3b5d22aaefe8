#include "predict_source.h"

#include <algorithm>
#include <filesystem>

#include "config/data_parts.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/files.h"
#include "predict_images.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

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
       "--predict: '{0}' holds images, such as '{1}', and shards, such as '{2}': name the shards, '{0}/*.tar', or a folder that "
       "has images alone",
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
    fail(ErrorKind::usage, "--labels: the weights do not say which values of label images are which class");
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
         "--labels: the numbers of images stand in the columns of a list (.csv, .tsv, .jsonl): --predict LIST --labels column");
  }
  if (recipe.output == "image" && !of_images) {
    fail(ErrorKind::usage,
         "--labels: the network makes pictures of no targets; a graph of the run's own file, with metrics, compares them");
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
      fail(ErrorKind::usage, "--labels: '{}' is no folder: name the folder of {}", labels,
           of_pixels ? "label images" : "what is to be made of the images");
    }
  }
  const std::string fits = type == "read_folder" ? "path" : type == "read_list" ? "column" : "shards";
  if (labels != fits) {
    fail(ErrorKind::usage, "--labels: expected {}, as {} tells labels of images, found '{}'", fits, type, labels);
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

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 2, "${") == 0) out += '$';
    out += text[at];
  }
  return out;
}

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

const Value* names_of_numbers(const InferenceRecipe& recipe) {
  const Value* const sink = recipe.sinks.find("write_features");
  const Value* const names = sink != nullptr && sink->kind() == Value::Kind::table ? sink->find("columns") : nullptr;
  const auto is_text = [](const Value& name) { return name.kind() == Value::Kind::text; };
  return names != nullptr && names->kind() == Value::Kind::array && std::ranges::all_of(names->array(), is_text) ? names
                                                                                                                 : nullptr;
}

Value source_of(const std::vector<std::string>& data, const std::string& labels, const InferenceRecipe& recipe) {
  if (data.size() == 1) return source_of_one(data.front(), labels, recipe);
  Array sources;
  for (const std::string& each : data) sources.push_back(source_of_one(each, labels, recipe));
  Value table;
  table.set("stage", Value("mix"));
  table.set("sources", Value(std::move(sources)));
  return table;
}

}  // namespace millrace
