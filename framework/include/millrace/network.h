// A network as data: layers in topological order with inferred shapes, parameters with names, initialisers and groups.
// Nothing here computes; backends compile it.
//
// Shapes are of one sample: (C, H, W) for maps, (C) for vectors. Weights are (out, in / groups, kernel height, kernel width) for
// conv, (in, out / groups, kernel height, kernel width) for transposed_conv and (out, in) for linear, as in safetensors files
// that torchvision's networks are published in.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/detail/type_description.h"
#include "millrace/params.h"
#include "millrace/tensor.h"

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
};

// A value that passes between layers: an output of a layer, by the layer's index and the output's place among its outputs. The
// network's input is that of Network::kInput.
struct LayerPort {
  int layer = 0;
  int port = 0;
  constexpr LayerPort(int of, int which = 0) : layer(of), port(which) {}  // NOLINT: a layer's index alone means its first output
  friend constexpr auto operator<=>(const LayerPort&, const LayerPort&) = default;
};

struct Layer {
  std::string name;               // "layer1.0.conv1"; unique
  std::string op;                 // "conv"
  std::vector<LayerPort> inputs;  // of earlier layers, or the network's input
  std::vector<Shape> input_shapes;
  Shape output;                                   // the first one
  std::vector<Shape> more_outputs;                // the others, for most layers none
  std::vector<int> parameters;                    // indices into Network::parameters, in the order the op declares them
  std::uint64_t multiply_adds = 0;                // of one sample's forward pass
  std::shared_ptr<const void> attributes;         // the op's own struct, such as ConvAttributes
  std::shared_ptr<const PortableLayer> portable;  // how it is computed where a backend has no operation of its own; may be null
  Position at;                                    // where the layer is written

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
  std::vector<double> mean, deviation;  // per channel, of pixels scaled to [0, 1]
  std::vector<Layer> layers;            // topological; the last one's first output are the logits
  std::vector<Parameter> parameters;
  std::string name;

  const Shape& output() const { return layers.back().output; }
  LayerPort result() const { return static_cast<int>(layers.size()) - 1; }  // the value that output() is the shape of
  const Shape& shape_of(LayerPort value) const { return layers[static_cast<std::size_t>(value.layer)].output_of(value.port); }
  int find_parameter(std::string_view parameter_name) const;  // -1 when there is none
};

// Values of one parameter by its initialiser, in float32: a function of (seed, parameter name) alone.
// REQUIRES: the rule is not "whiten".
std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed);

// ---- Attributes of the built-in ops. Spatial figures are {height, width}; padding is {top, left, bottom, right}. ----

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
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * new; the variance that is kept is unbiased
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
  bool by_channel = true;  // false: whole samples are dropped
  bool by_pixel = true;    // false: whole channels, or samples. REQUIRES: by_channel where it is true
};
struct LrnAttributes {  // "lrn": across channels, x / (k + alpha / size * sum x^2) ^ beta
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
};
struct ScaleAttributes {  // "scale": multiplies by a constant
  double factor = 1;
};
struct SplitAttributes {      // "split": outputs first, second
  std::int64_t channels = 0;  // of the first; 0: half of them
};
// Without attributes: "relu", "gelu" (exact, erf), "add", "concat" (channels), "global_average_pool" (-> (C)),
// "flatten".

// ---- Registration of ops ----

struct LayerPlan {  // what an op makes of its inputs
  Shape output;
  std::vector<Shape> more_outputs;    // behind the first, as LayerType::outputs names them
  std::vector<Parameter> parameters;  // names relative to the layer: "weight"
  std::uint64_t multiply_adds = 0;
  std::shared_ptr<const void> attributes;
  std::shared_ptr<const PortableLayer> portable;
};

// A table of a layer with the shapes of its inputs. Gradient checks, conformance tests and documentation are made from them.
struct LayerExample {
  std::string table;  // in TOML: "slope = 0.2"
  std::vector<Shape> inputs;
};

// What passes between layers. Only values have gradients. Indices, such as the places of a max pooling's largest values, may be
// left unread.
enum class Carries { values, indices };

struct LayerOutput {
  std::string name;  // "low": another layer takes it by `from = "split1:low"`
  Carries carries = Carries::values;
};

struct LayerType : TypeDescription {
  std::vector<std::string> other_names;  // by which people look for it: a mistake is answered with `name`
  std::vector<LayerExample> examples;    // at least one
  int least_inputs = 1, most_inputs = 1;
  std::vector<Carries> takes;  // by input; those behind the last take values
  std::vector<LayerOutput> outputs = {{"out"}};
  // Reads the layer's table and infers. Throws Error(usage) with a message about shapes; name and position are added by the
  // caller. Without inputs (their shapes are not known, after an earlier mistake) it only reads the table.
  std::function<LayerPlan(const Value& table, const std::vector<Shape>& inputs, Diagnostics& errors)> plan;
};

}  // namespace millrace
