// Whether an exported network takes images of other sizes than those of its training.
#pragma once

#include <string>

#include "predict/model.h"

namespace millrace {

struct FreeSize {
  std::int64_t step = 1;  // height and width may exceed the training's by multiples of it
  ImageShape other;       // one such size
  Shape output;           // what the network makes of it
};

// Builds the network for several larger sizes and compares the nodes of all. Throws Error(usage) that names the layer whose nodes
// depend on the size. `layer`: whose output is exported; "": the network's result.
FreeSize free_size_of(const Model& model, const Registry& registry, const std::string& layer);

}  // namespace millrace
