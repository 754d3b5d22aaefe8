// The sizes of photographs that a network is to restore.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/plugin.h"
#include "recipe/inference_recipe.h"

namespace millrace {

// Images of one size, as they arrive at `batch`, in the order of the source.
struct SizeGroup {
  ImageShape shape;
  ImageShape file;                // as they are decoded; the same unless a stage changes the size
  std::string first;              // an image, for messages
  std::vector<std::string> urls;  // of all
  bool in_archives = false;       // images have no file of their own
};

// Opens each image that the graph `predict` of the pipeline reads. Images that cannot be read are in the first group: the run
// names them. Throws Error(data) where no image can be read.
std::vector<SizeGroup> group_by_size(const Pipeline& pipeline, const Registry& registry);

// The network's file and variables for an input of another size.
struct SizedNetwork {
  Value document, variables;
};
SizedNetwork at_size(const InferenceRecipe& recipe, const ImageShape& shape);

// Throws Error(usage) where the network cannot take the images: it has other parameters at this size, its layers do not fit, or
// its output has another size than it should. `images`: of that size.
void check_size(const InferenceRecipe& recipe, const SizeGroup& images, const Registry& registry);

}  // namespace millrace
