// --predict: pipelines made from a file of weights, which says how images are prepared for it (recipe/inference_recipe.h).
#pragma once

#include <string>
#include <vector>

#include "made_files.h"
#include "millrace/plugin.h"

namespace millrace {

// Stands for places in the files that it makes: see LoadOptions.
inline constexpr const char* kPredict = "--predict";

struct PredictRequest {
  std::vector<std::string> images;     // image files, folders, lists, tar shards and patterns, at paths or URLs
  std::string weights;                 // a file or a URL
  std::string folder;                  // where predictions are written
  std::string labels;                  // what predictions are compared with, see read_labels(); "": with nothing
  std::vector<std::string> overrides;  // of the pipeline that is made, as --set takes them
};

// Writes network.toml and pipeline.toml into the folder and returns the path of the second, whose graph is [predict]. It reads
// the images, prepares the images as the run's validation did, and writes into the folder what fits the network's result:
// predictions.csv, masks, images, or features.safetensors; bad samples into quarantine.jsonl; with labels, numbers or target
// images, figures into evaluation. However many images are bad, the others are predicted, unless `overrides` say otherwise. A
// network that restores photographs takes them at their own size where its layers can: then the images are opened, and each size
// has two files of its own, such as pipeline-360x480.toml. Throws Error(usage) for names of nothing that is there, for weights
// that do not say how they were validated, and for sizes that the network cannot take, and what reading them throws.
std::vector<std::string> write_prediction(const PredictRequest& request, const Registry& registry, MadeFiles& files);

}  // namespace millrace
