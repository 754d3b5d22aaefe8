// A layer's output shapes and parameters. Part of layer.h, and of batch.h for the names of values.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/detail/tensor.h"

namespace millrace {

class PortableLayer;

struct Initialiser {
  // "constant", "uniform", "normal", "he_normal", "he_normal_fan_out", "he_uniform", "glorot_normal", "glorot_uniform",
  // "fan_in_uniform" (He with a = sqrt 5), "dirac" (fan_in_uniform, then the first filters become the identity), "whiten" (from
  // the data, see network/whitening)
  std::string rule = "constant";
  double value = 0;  // the constant, the bound of "uniform", or the deviation of "normal"
};

struct Parameter {
  std::string name;  // "layer1.0.conv1.weight"
  Shape shape;
  Initialiser initialiser;
  bool trainable = true;    // false: neither gradient nor update
  bool statistic = false;   // a running statistic: state, but not trained and never decayed
  bool unused = false;      // of a layer that leads to no loss: not trained, and a file of weights need not have it
  double rate_factor = 1;   // of the learning rate
  double decay_factor = 1;  // of the weight decay
  // The name and the shape in files of weights, where those differ (`stored_as`, network/load.h). The order of values is the
  // same.
  std::string stored_name = {};
  Shape stored_shape = {};
};

// A value passed between layers: a layer's output, by the layer's index and the output's index among its outputs. Network::kInput
// stands for the network's input.
struct LayerPort {
  int layer = 0;
  int port = 0;
  constexpr LayerPort(int of, int which = 0) : layer(of), port(which) {}  // NOLINT: a layer's index alone means its first output
  friend constexpr auto operator<=>(const LayerPort&, const LayerPort&) = default;
};

// A layer's output shapes and parameters.
struct LayerPlan {
  Shape output;
  std::vector<Shape> more_outputs;    // after the first, in the order of LayerType::outputs
  std::vector<Parameter> parameters;  // names relative to the layer: "weight"
  std::uint64_t multiply_adds = 0;
  std::shared_ptr<const void> attributes;
  std::shared_ptr<const PortableLayer> portable;
};

}  // namespace millrace
