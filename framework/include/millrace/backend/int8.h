// Inference in 8-bit integers. A network in int8 (predict/int8.h) has layers of the op "quantise", which round a value to a grid:
//
//   y = scale * clamp(round(x / scale), least, most)        least ... most: 0 ... 255, or -128 ... 127 if signed; ties to even
//
// A conv or linear layer in int8 has the parameters weight, bias, weight_scale: each weight is a multiple, from -127 to 127, of
// its output channel's scale, and each bias one of the products of that scale and the input's. All readers of such a layer's
// input and output see values on a grid. A backend may compute these layers in integers, or in float32 from the same values:
// results differ only where a value lies between two grid points.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "millrace/backend/network.h"

namespace millrace {

inline constexpr const char* kQuantise = "quantise";

struct QuantiseAttributes {
  float scale = 1;
  bool is_signed = false;

  float least() const { return is_signed ? -128.0F : 0.0F; }
  float most() const { return is_signed ? 127.0F : 255.0F; }
  float integer(float x) const { return std::nearbyint(std::clamp(x / scale, least(), most())); }
  friend bool operator==(const QuantiseAttributes&, const QuantiseAttributes&) = default;
};

// The grid of a value; null if it has none.
inline const QuantiseAttributes* grid_of(const Network& network, LayerPort value) {
  if (value.layer < 0) return nullptr;
  const Layer& layer = network.layers[static_cast<std::size_t>(value.layer)];
  return layer.op == kQuantise ? &layer.as<QuantiseAttributes>() : nullptr;
}

// Whether a layer's weights are integers times their scales, as its input is.
inline bool is_int8(const Layer& layer) { return (layer.op == "conv" || layer.op == "linear") && layer.parameters.size() == 3; }

}  // namespace millrace
