// What recipes may use stages for, and what a stage does to the images of a user. Part of params.h and stage.h.
//
// A recipe stands in a file of weights and may come from anywhere, so it is data and nothing more: it makes stages of the role
// that fits their place, with keys that are ParamRef::in_recipes().
#pragma once

#include <cstdint>

namespace millrace {

enum class RecipeRole : std::uint8_t {
  none,         // no recipe makes the stage
  preparation,  // makes images, or changes them, before `batch`
  inference,    // runs the network, after `batch`
  sink,         // writes predictions, and where to is for the user to say
};

// What a stage of role preparation, or a value of its key that is not the default, does to inputs of a network that restores
// images. Such a network is trained on images that are made of their targets, and cut to one size; a user's photographs are
// inputs as they are, and have sizes of their own.
enum class RecipeEffect : std::uint8_t {
  none,         // photographs get it as well
  spoils,       // makes an input of its target, such as noise: photographs go without it
  cuts,         // cuts to the size of training: photographs that keep their size go without it
  states_size,  // says which size images have: photographs that keep their size have it in place of that
  resizes,      // makes all images one size, which photographs then get too
};

}  // namespace millrace
