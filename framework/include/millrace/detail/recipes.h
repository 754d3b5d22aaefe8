// The roles of stages in recipes, and their effect on a user's images. Part of params.h and stage.h.
//
// A recipe is stored in a weight file and may come from anywhere, so it must be pure data: it makes stages whose role fits their
// place, with keys that are ParamRef::in_recipes().
#pragma once

#include <cstdint>

namespace millrace {

enum class RecipeRole : std::uint8_t {
  none,         // recipes may not make the stage
  preparation,  // makes images, or changes them, before `batch`
  inference,    // runs the network, after `batch`
  sink,         // writes predictions, to a place that the user chooses
};

// Effect of a preparation stage, or of a non-default value of its key, on inputs of a network that restores images. Such a
// network is trained on images derived from their targets and cropped to one size; a user's photographs already are inputs, and
// have sizes of their own.
enum class RecipeEffect : std::uint8_t {
  none,         // also applied to photographs
  spoils,       // derives an input from its target, such as by noise: not applied to photographs
  cuts,         // crops to the training size: not applied to photographs that keep their size
  states_size,  // declares the size of images: photographs that keep their size replace it
  resizes,      // resizes all images to one size, photographs too
};

}  // namespace millrace
