// --predict: makes pipelines from a file of weights, which describes its image preparation (prepare/inference_recipe.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "made_files.h"
#include "millrace/plugin.h"

namespace millrace {

// Placeholder for paths in generated files: see LoadOptions.
inline constexpr const char* kPredict = "--predict";

struct PredictRequest {
  std::vector<std::string> images;                      // image files, folders, lists, tar shards and patterns, at paths or URLs
  std::string weights;                                  // a file or a URL
  std::string folder;                                   // the folder for predictions
  std::string labels;                                   // what predictions are compared with, see read_labels(); "" for nothing
  std::vector<std::string> overrides;                   // for the generated pipeline, as for --set
  std::function<void(const std::string&)> notice = {};  // see RunHooks
};

// Writes network.toml and pipeline.toml into the folder and returns the path of the second, whose graph is [predict]. It reads
// the images, prepares them like the run's validation, and writes output that suits the network's result: predictions.csv, masks,
// images, or features.safetensors; bad samples into quarantine.jsonl; with labels, numbers or target images, metrics into
// evaluation. Bad images do not stop the others, unless `overrides` limit them. A network that restores photographs takes them at
// their own size if its layers can: then the images are opened, and each size has two separate files, such as
// pipeline-360x480.toml. Throws Error(usage) for missing names, for weights without a validation recipe, and for sizes unsuitable
// for the network, and errors of reading them.
std::vector<std::string> write_prediction(const PredictRequest& request, const Registry& registry, MadeFiles& files);

}  // namespace millrace
