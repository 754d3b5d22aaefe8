// A network as the nodes of an ONNX file.
#pragma once

#include <string>

#include "millrace/backend/network.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace {

// The value "input", (N, C, H, W), becomes the value "output": that of `layer`, or of the network where `layer` is "". Layers
// that this value does not need are left out. `has_free_size`: see OnnxGraph. Throws Error(usage) that names every layer without
// a form in ONNX, and for a name that is not a layer's.
struct OnnxNetwork {
  OnnxGraph graph;
  Shape output;  // of one sample
};
OnnxNetwork onnx_network(const Network& network, const Registry& registry, const std::string& layer = {},
                         bool has_free_size = false);

}  // namespace millrace
