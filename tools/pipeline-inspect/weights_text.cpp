#include <fmt/format.h>

#include "inspect.h"
#include "millrace/util/json_lines.h"
#include "millrace/util/text.h"
#include "prepare/image_summary.h"
#include "prepare/inference_recipe.h"
#include "weights/tensor_file.h"
#include "weights/weights.h"

namespace millrace {
namespace {

// Preparation that is skipped for a user's photographs.
std::string left_out(const InferenceRecipe& stored, const Registry& registry) {
  if (takes_own_size(stored, registry)) {
    return ", without the stages that made an image of its target;\nphotographs keep their own size, and height and width are "
           "those of validation";
  }
  return restores(stored) ? ", without the stages that made an image of its target" : "";
}

}  // namespace

std::string describe_weights(const std::string& file, const Registry& registry) {
  const TensorFile read = read_tensors(file);
  std::size_t numbers = 0;
  for (const NamedTensor& tensor : read.tensors) numbers += tensor.values.size();
  std::string out = fmt::format("{}: {} tensors of {} numbers\n", file, read.tensors.size(), numbers);
  const auto network = read.metadata.find("network");
  if (network != read.metadata.end()) out += fmt::format("  network  {}\n", shown(network->second));
  std::vector<std::string> classes = classes_from(read.metadata);
  for (std::string& name : classes) name = shown(name);
  if (!classes.empty()) out += fmt::format("  classes  {}: {}\n", classes.size(), fmt::join(classes, ", "));
  if (const auto images = image_summary_from(read.metadata))
    out += fmt::format("  images   {} training files were examined: {}\n", images->looked_at, images->text());
  const auto stored = recipe_from(read.metadata, file);
  if (!stored) return out + "It does not record how images are prepared.\n";
  const InferenceRecipe usage = without_training_degradation(*stored, registry);
  out += fmt::format("Images are prepared as in [{}] of its run{}. pipeline-run --predict IMAGES --weights {} uses this:\n\n",
                     usage.graph, left_out(*stored, registry), file);
  const std::string text = metadata_of(usage).at("usage");
  return out + text.substr(0, text.find("\n[document]"));
}

std::string list_tensors(const std::string& file) {
  std::string out;
  for (const ListedTensor& tensor : read_tensors(file).listed) {
    std::string line = JsonLine().add("name", tensor.name).add("type", tensor.type).text();
    line.pop_back();
    out += fmt::format("{},\"shape\":[{}]}}\n", line, fmt::join(tensor.shape.begin(), tensor.shape.end(), ","));
  }
  return out;
}

}  // namespace millrace
