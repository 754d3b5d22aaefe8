// --predict: a pipeline made from a file of weights, which says how images are prepared for it (run/usage.h).
#pragma once

#include <string>

#include "millrace/plugin.h"

namespace millrace {

struct PredictRequest {
  std::string data;     // a folder of images, a list, tar shards; a path or a URL
  std::string weights;  // a file or a URL
  std::string folder;   // where predictions are written
};

// Writes network.toml and pipeline.toml into the folder and returns the path of the second, whose graph is [predict]. It reads
// `data`, prepares the images as the run's validation did, and writes into the folder what fits the network's result:
// predictions.csv, masks, images, or features.safetensors. Throws Error(usage) for weights that do not say how they were
// validated, and what reading them throws.
std::string write_prediction(const PredictRequest& request, const Registry& registry);

}  // namespace millrace
