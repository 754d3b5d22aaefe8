// The network of a recipe for images of another size.
#pragma once

#include "recipe/inference_recipe.h"

namespace millrace {

// The network's file and variables.
struct SizedNetwork {
  Value document, variables;
};
SizedNetwork at_size(const InferenceRecipe& recipe, const ImageShape& shape);

}  // namespace millrace
