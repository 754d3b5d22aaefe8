// A trained network as it is exported: its layers, weights, classes, and how images are prepared for it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/plugin.h"
#include "recipe/inference_recipe.h"
#include "weight_files/weights.h"

namespace millrace {

struct Model {
  std::string weights_file, weights_sha256;
  std::string run;   // the folder of the run that wrote the weights; "": it is not known
  std::string data;  // the run's sources as JSON: number of samples and hash of the listing; "": not known
  std::map<std::string, std::string> metadata;  // of the file
  InferenceRecipe recipe;
  std::shared_ptr<const Network> network;
  Weights weights;  // in the network's order
  std::vector<std::string> classes;
};

// `from`: the folder of a run, for its best weights or else the last ones, or a file of weights that Millrace wrote. Throws
// Error(usage) or Error(data) that names the file.
Model read_model(const std::string& from, const Registry& registry);

}  // namespace millrace
