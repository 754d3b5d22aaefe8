#include "model.h"

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "checkpoint/run_folder.h"
#include "config/kept_run.h"
#include "files/file_sum.h"
#include "millrace/error.h"
#include "millrace/util/sha256.h"
#include "network/load.h"
#include "network/transfer.h"
#include "weight_files/best_weights.h"
#include "weight_formats/tensor_file.h"

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
         "'{}' does not describe its network: Millrace did not write it, or its run had no validation. Export weights that "
         "pipeline-run wrote",
         file);
  }
  const std::string mistake = mistake_in_recipe(*recipe, registry);
  if (!mistake.empty()) fail(ErrorKind::data, "'{}' cannot be exported: {}", file, mistake);
  return *std::move(recipe);
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
  model.weights_file = file.string();
  if (is_run(file.parent_path())) model.run = file.parent_path().string();
  if (!model.run.empty()) model.data = data_of(model.run);
  if (has_sha256()) model.weights_sha256 = sha256_of_file(model.weights_file);
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

}  // namespace millrace
