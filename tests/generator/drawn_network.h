// A small network for a task, of layers drawn from the registry.
#pragma once

#include <string>
#include <vector>

#include "drawn_data.h"
#include "drawn_keys.h"
#include "millrace/plugin.h"

namespace millrace::generator {

struct NetworkSize {
  int channels = 3, height = 16, width = 16;
  int outputs = 3;  // classes or numbers; for images: channels
  int scale = 1;    // for maps
};

struct DrawnNetwork {
  Value document;                   // the network's file
  std::vector<std::string> layers;  // their names
};

DrawnNetwork drawn_network(Draw& draw, const Registry& registry, Task task, const NetworkSize& size, double share);

}  // namespace millrace::generator
