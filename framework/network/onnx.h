// A network as the nodes of an ONNX file.
#pragma once

#include <string>

#include "millrace/backend/network.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace {

// Initialisers of int8 and uint8 0, which the file has where a node takes them.
inline constexpr const char *kOnnxZeroInt8 = "zero_int8", *kOnnxZeroUint8 = "zero_uint8";

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
