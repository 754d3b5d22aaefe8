// A trained network without its pipeline: what exporters, `--predict` and libmillrace_predict open. Nothing here makes a graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/plugin.h"
#include "prepare/inference_recipe.h"
#include "weights/weights.h"

namespace millrace {

struct Model {
  std::string weights_file;
  std::string weights_sha256;  // see add_provenance()
  std::string run;             // folder of the run that wrote the weights; "": unknown
  std::string data;            // the run's sources as JSON: samples and hash of the listing. See add_provenance()
  std::map<std::string, std::string> metadata;  // of the file
  InferenceRecipe recipe;
  std::shared_ptr<const Network> network;
  Weights weights;  // in the network's order
  std::vector<std::string> classes;
};

// `from`: the folder of a run, for its best weights or else the last ones, or a file of weights that Millrace wrote. Throws
// Error(usage) or Error(data) that names the file.
Model read_model(const std::string& from, const Registry& registry);
// Sets weights_sha256, unless this build lacks SHA-256, and data, if the run is known. Reads the whole file again.
void add_provenance(Model& model);

// True if the loss takes numbers from 0 to 1, like binary_cross_entropy: they state whether an image has a label.
bool predicts_labels(const InferenceRecipe& recipe, const Registry& registry);

// The network's file and variables for another input size.
struct SizedNetwork {
  Value document, variables;
};
SizedNetwork at_size(const InferenceRecipe& recipe, const ImageShape& shape);
// The network for this input size. Null, with the reason in `why`, if its parameters change with the size, its layers do not fit,
// or its output has the wrong size.
std::shared_ptr<const Network> network_for_size(const InferenceRecipe& recipe, const ImageShape& shape, const Registry& registry,
                                                std::string& why);

}  // namespace millrace
