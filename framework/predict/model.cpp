#include "predict/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/run_folder.h"
#include "config/kept_run.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/sha256.h"
#include "network/load.h"
#include "network/transfer.h"
#include "toml/document.h"
#include "util/file_sum.h"
#include "util/json.h"
#include "weights/best_weights.h"
#include "weights/tensor_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "pipeline.toml", error);
}

InferenceRecipe recipe_of(const std::map<std::string, std::string>& metadata, const std::string& file, const Registry& registry) {
  std::optional<InferenceRecipe> recipe = recipe_from(metadata, file);
  if (!recipe) {
    fail(ErrorKind::usage,
         "'{}' does not describe its network: Millrace did not write it, or its run had no validation. Name weights that "
         "pipeline-run wrote",
         file);
  }
  const std::string mistake = mistake_in_recipe(*recipe, registry);
  if (!mistake.empty()) fail(ErrorKind::data, "'{}' cannot be used without its run: {}", file, mistake);
  return *std::move(recipe);
}

std::int64_t input_extent(const InferenceRecipe& recipe, const char* key) {
  const Value* const value = recipe.input.find(key);
  return value != nullptr && value->kind() == Value::Kind::integer ? value->integer() : 0;
}

std::shared_ptr<const Network> network_at(const SizedNetwork& sized, const Registry& registry, std::string* why = nullptr) {
  Diagnostics errors;
  auto network = build_network(sized.document, "network.toml", sized.variables, registry, errors);
  if (errors.empty()) return network;
  const std::string text = errors.text();
  if (why != nullptr) *why = text.substr(0, text.find('\n'));
  return nullptr;
}

// {"train.read": {"samples": 5000, "listing_hash": "54bf77b139a3df1b"}, ...}, from the record of the run's folder.
std::string data_of(const std::string& run) {
  std::ifstream file(fs::path(run) / kKeptRecord, std::ios::binary);
  const Json record = Json::parse(file, nullptr, false);
  if (!record.is_object() || !record.contains("data") || !record["data"].is_object()) return {};
  Json data = Json::object();
  for (const auto& [source, facts] : record["data"].items()) {
    for (const char* key : {"samples", "listing_hash"}) {
      if (facts.contains(key)) data[source][key] = facts[key];
    }
  }
  return data.dump();
}

}  // namespace

Model read_model(const std::string& from, const Registry& registry) {
  Model model;
  const fs::path path = without_link(from);
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? weights_of_run(path) : path;
  if (!fs::exists(file, error)) fail(ErrorKind::usage, "{}", no_such_file(from));
  model.weights_file = file.string();
  if (is_run(file.parent_path())) model.run = file.parent_path().string();
  model.metadata = read_tensors_metadata(model.weights_file);
  model.recipe = recipe_of(model.metadata, model.weights_file, registry);
  model.classes = classes_from(model.metadata);
  Diagnostics errors;
  model.network = build_network(model.recipe.document, model.metadata["network"], model.recipe.network, registry, errors);
  errors.throw_if_any();
  WeightsSource source{.file = model.weights_file, .fresh = {}, .rename = {}};
  source.is_measured = true;
  model.weights = load_weights(source, *model.network);
  return model;
}

void add_provenance(Model& model) {
  if (!model.run.empty()) model.data = data_of(model.run);
  if (has_sha256()) model.weights_sha256 = sha256_of_file(model.weights_file);
}

bool predicts_labels(const InferenceRecipe& recipe, const Registry& registry) {
  const Value* const named = recipe.measure.kind() == Value::Kind::text ? &recipe.measure : recipe.measure.find("type");
  const bool is_text = named != nullptr && named->kind() == Value::Kind::text;
  const LossType* const loss = is_text ? registry.losses().find(named->text()) : nullptr;
  return loss != nullptr && loss->info->numbers.has_value();
}

SizedNetwork at_size(const InferenceRecipe& recipe, const ImageShape& shape) {
  SizedNetwork sized{recipe.document, recipe.network};
  Value* const input = sized.document.find("input");
  for (const auto& [key, extent] : {std::pair{"height", shape.height}, {"width", shape.width}}) {
    const Value* const said = input != nullptr ? input->find(key) : nullptr;
    const bool refers = said != nullptr && said->kind() == Value::Kind::text && said->text().starts_with("${") &&
                        said->text().find('}') == said->text().size() - 1;
    if (refers)
      sized.variables.set(said->text().substr(2, said->text().size() - 3), Value(extent));
    else if (input != nullptr)
      input->set(key, Value(extent));
  }
  return sized;
}

std::shared_ptr<const Network> network_for_size(const InferenceRecipe& recipe, const ImageShape& shape, const Registry& registry,
                                                std::string& why) {
  auto network = network_at(at_size(recipe, shape), registry, &why);
  if (!network) return nullptr;
  const auto validated = network_at({recipe.document, recipe.network}, registry);
  const auto same = [](const Parameter& a, const Parameter& b) { return a.name == b.name && a.shape == b.shape; };
  if (validated && !std::ranges::equal(network->parameters, validated->parameters, same)) {
    why = fmt::format("its layers have weights only for {} x {}", input_extent(recipe, "height"), input_extent(recipe, "width"));
    return nullptr;
  }
  const Value* const scale = recipe.target.find("scale");
  const std::int64_t times = scale != nullptr && scale->kind() == Value::Kind::integer ? scale->integer() : 1;
  const Shape& output = network->output();
  if (output.rank() == 3 && output[1] == times * shape.height && output[2] == times * shape.width) return network;
  why =
      fmt::format("its output would be {}, and should be {} x {}", to_string(output), times * shape.height, times * shape.width);
  return nullptr;
}

}  // namespace millrace
