#include "model.h"

#include <filesystem>

#include "checkpoint/run_folder.h"
#include "millrace/error.h"
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

}  // namespace

Model read_model(const std::string& from, const Registry& registry) {
  Model model;
  const fs::path path = without_link(from);
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? weights_of_run(path) : path;
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

}  // namespace millrace
