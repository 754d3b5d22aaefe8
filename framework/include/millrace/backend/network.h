// A network as data: layers in topological order with inferred shapes, parameters with names, initialisers and groups. Nothing
// here computes; backends compile it.
//
// Shapes are for one sample: (C, H, W) for maps, (C) for vectors. Weights are (out, in / groups, kernel height, kernel width) for
// conv, (in, out / groups, kernel height, kernel width) for transposed_conv and (out, in) for linear, as in the published
// safetensors files of torchvision's networks.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/detail/layer_plan.h"
#include "millrace/detail/tensor.h"
#include "millrace/params.h"

namespace millrace {

class PortableLayer;

struct Layer {
  std::string name;               // "layer1.0.conv1"; unique
  std::string op;                 // "conv"
  std::vector<LayerPort> inputs;  // from earlier layers, or the network's input
  std::vector<Shape> input_shapes;
  Shape output;                                   // first output
  std::vector<Shape> more_outputs;                // further outputs; empty for most layers
  std::vector<int> parameters;                    // indices into Network::parameters, in the order the op declares them
  std::uint64_t multiply_adds = 0;                // in one sample's forward pass
  std::shared_ptr<const void> attributes;         // the op's own struct, such as ConvAttributes
  std::shared_ptr<const PortableLayer> portable;  // computes the layer if a backend has no operation of its own; may be null
  Position at;                                    // position in its file

  int output_count() const { return 1 + static_cast<int>(more_outputs.size()); }
  const Shape& output_of(int port) const { return port == 0 ? output : more_outputs[static_cast<std::size_t>(port) - 1]; }

  template <class Attributes>
  const Attributes& as() const {
    return *static_cast<const Attributes*>(attributes.get());
  }
};

class Network {
 public:
  static constexpr int kInput = -1;

  ImageShape input;
  std::vector<double> mean, deviation;  // per channel, for pixels scaled to [0, 1]
  std::vector<Layer> layers;            // topological; the last layer's first output holds the logits
  std::vector<Parameter> parameters;
  std::string name;

  const Shape& output() const { return layers.back().output; }
  LayerPort result() const { return static_cast<int>(layers.size()) - 1; }  // the value with shape output()
  const Shape& shape_of(LayerPort value) const { return layers[static_cast<std::size_t>(value.layer)].output_of(value.port); }
  int find_parameter(std::string_view parameter_name) const;  // -1 if there is none
};

// A parameter's initial values, in float32: they depend on seed and parameter name alone.
// REQUIRES: the rule is not "whiten".
std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed);

// ---- Attributes of the built-in ops. Spatial values are {height, width}; padding is {top, left, bottom, right}. ----

struct Padding {
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;
};

struct ConvAttributes {  // "conv", "transposed_conv": parameters weight[, bias]
  std::int64_t out = 0;
  Size kernel, stride, dilation;
  Padding padding;
  std::int64_t groups = 1;
  bool bias = true;
  // The window is then that of the convolution from the layer's output to its input. The layer computes its data gradient.
  bool transposed = false;
};
struct BatchNormAttributes {  // "batch_norm": parameters [weight][, bias], running_mean, running_var
  double epsilon = 1e-5;
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * new; the stored variance is unbiased
  bool scale = true;      // has a weight; otherwise fixed at 1
  bool shift = true;      // has a bias
};
struct PoolAttributes {  // "max_pool", "average_pool"
  Size kernel, stride;
  Padding padding;             // max: padded with -infinity
  bool count_padding = false;  // average: divide by the window's size rather than by the pixels inside
};
struct LinearAttributes {  // "linear": flattens its input; parameters weight[, bias]
  std::int64_t out = 0;
  bool bias = true;
};
struct DropoutAttributes {  // "dropout", "stochastic_depth": inverted, scaled by 1 / (1 - probability) in training
  double probability = 0.5;
  bool by_channel = true;  // false: drops whole samples
  bool by_pixel = true;    // false: drops whole channels, or samples. REQUIRES: by_channel if true
};
struct LrnAttributes {  // "lrn": across channels, x / (k + alpha / size * sum x^2) ^ beta
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
};
struct ScaleAttributes {  // "scale": multiplies by a constant
  double factor = 1;
};
struct SplitAttributes {      // "split": outputs first, second
  std::int64_t channels = 0;  // in the first output; 0: half of them
};
// Without attributes: "relu", "gelu" (exact, erf), "add", "concat" (channels), "global_average_pool" (-> (C)),
// "flatten".

}  // namespace millrace
