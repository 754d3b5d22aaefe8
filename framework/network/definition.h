// Shared parts of the native layers: parameters of weights, sliding windows, and making a LayerType from a struct of parameters
// and a shape inference function.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/onnx.h"
#include "millrace/plugin.h"

namespace millrace::ops {

// ---- Weights and biases ----

// Keys of every op with parameters, in addition to its own.
struct WeightParams {
  Value initialiser;  // an empty table selects the op's own
  Value bias_initialiser;
  bool trainable = true;
  bool bias_trainable = true;
  double rate_factor = 1, bias_rate_factor = 1;
  double decay_factor = 1, bias_decay_factor = 1;

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("initialiser", &Params::initialiser).text("initial weights: a rule's name, a number, or { rule = ..., value = ... }");
    set.add("bias_initialiser", &Params::bias_initialiser).text("initial biases: a rule, a number or a table, as above");
    set.add("trainable", &Params::trainable).text("false: the weights keep their initial values");
    set.add("bias_trainable", &Params::bias_trainable).text("false: the biases keep their initial values");
    set.add("rate_factor", &Params::rate_factor).range(0).text("factor on the weights' learning rate");
    set.add("bias_rate_factor", &Params::bias_rate_factor).range(0).text("factor on the biases' learning rate");
    set.add("decay_factor", &Params::decay_factor).range(0).text("factor on the weights' weight decay");
    set.add("bias_decay_factor", &Params::bias_decay_factor).range(0).text("factor on the biases' weight decay");
  }
};

// Parses `value` (`otherwise` if it is the empty table). `rank`: of the parameter; rules that need a fan-in refuse vectors.
Initialiser read_initialiser(const Value& value, const Initialiser& otherwise, int rank, Diagnostics& errors);

// "weight" and "bias" of a layer. REQUIRES: the initialisers were checked.
Parameter weight_parameter(const WeightParams& params, const Shape& shape, const Initialiser& otherwise);
Parameter bias_parameter(const WeightParams& params, const Shape& shape, const Initialiser& otherwise);

// PyTorch's defaults for conv and linear layers: weights and biases uniform within 1 / sqrt(fan in).
inline const Initialiser kDefaultWeight{"fan_in_uniform", 0};
Initialiser default_bias(std::int64_t fan_in);

// `rank`: of the weights.
void check_initialisers(const WeightParams& params, int rank, Diagnostics& errors);

inline constexpr double kMaxChannels = 1 << 24;

// ---- Windows ----

// `padding`: an integer, [height, width], [top, left, bottom, right], "same" or "valid".
struct PaddingRule {
  bool same = false;
  Padding fixed;
};
PaddingRule read_padding(const Value& value, Diagnostics& errors);

struct Window {
  Size kernel, stride;
  Size dilation = {1, 1};
  PaddingRule padding;
  bool round_up = false;  // a last window that begins inside the input may end outside
};

struct Placement {
  Padding padding;                     // as applied by the window; round_up enlarges bottom and right
  std::int64_t height = 0, width = 0;  // of the output
};

// REQUIRES: maps(input). Throws Error(usage) if the window does not fit.
Placement place(const Window& window, const Shape& input);

// Places the window from the output of a transposed convolution to its input: padding is cropped from the output, and with "same"
// the output is the input times the stride. `output_padding`: additional rows and columns at the output's end, since with a
// stride several output sizes map to the same input.
// REQUIRES: maps(input). Throws Error(usage) if no output fits.
Placement place_transposed(const Window& window, const Size& output_padding, const Shape& input);

// Throws Error(usage) unless the shape is a map, (C, H, W).
void require_maps(const Shape& input);

// ---- Making a LayerType ----

struct NoParams {};  // for ops without parameters

// `infer(params, inputs)` throws Error(usage) for impossible shapes; `check(params, errors)` reports values that are wrong for
// any shape.
template <class Params>
struct Definition {
  const char* name;
  const char* text;
  std::vector<LayerExample> examples;
  int least_inputs = 1, most_inputs = 1;
  std::vector<LayerOutput> outputs = {{"out"}};
  void (*describe)(ParamSet<Params>& set);
  void (*check)(const Params& params, Diagnostics& errors) = nullptr;
  LayerPlan (*infer)(const Params& params, const std::vector<Shape>& inputs);
  void (*write_onnx)(OnnxLayer& onnx);
};

template <class Params>
LayerType make_layer_type(const Definition<Params>& definition) {
  auto set = std::make_shared<ParamSet<Params>>();
  definition.describe(*set);
  LayerType type;
  static_cast<TypeDescription&>(type) = detail::description_of(definition.name, definition.text, *set);
  type.examples = definition.examples;
  type.least_inputs = definition.least_inputs;
  type.most_inputs = definition.most_inputs;
  type.outputs = definition.outputs;
  type.write_onnx = definition.write_onnx;
  type.plan = [set, definition](const Value& table, const std::vector<Shape>& inputs, Diagnostics& errors) {
    const std::size_t before = errors.size();
    const Params params = read_struct(*set, table, "op '" + std::string(definition.name) + "'", errors);
    if (errors.size() == before && definition.check) definition.check(params, errors);
    if (errors.size() != before || inputs.empty()) return LayerPlan{};
    return definition.infer(params, inputs);
  };
  return type;
}

// The definition of a layer without parameters.
struct PlainDefinition {
  const char* name;
  const char* text;
  std::vector<LayerExample> examples;
  int least_inputs = 1, most_inputs = 1;
  LayerPlan (*infer)(const NoParams& params, const std::vector<Shape>& inputs);
  void (*write_onnx)(OnnxLayer& onnx);
};
LayerType make_layer_type(const PlainDefinition& definition);

LayerPlan same_shape(const NoParams& params, const std::vector<Shape>& inputs);  // the shape of the first input
void write_onnx_identity(OnnxLayer& onnx);  // the output is the input
// {top, left, bottom, right}, as ONNX lists the padding of a window.
std::vector<std::int64_t> onnx_pads(const Padding& padding);

// Attributes behind the type-erased pointer of a LayerPlan.
template <class Attributes>
std::shared_ptr<const void> attributes(Attributes values) {
  return std::make_shared<const Attributes>(std::move(values));
}

}  // namespace millrace::ops
