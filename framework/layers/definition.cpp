#include "layers/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"

namespace millrace::ops {
namespace {

const std::vector<std::string>& rules() {
  static const std::vector<std::string> names = {"constant",          "uniform",    "normal",        "he_normal",
                                                 "he_normal_fan_out", "he_uniform", "glorot_normal", "glorot_uniform",
                                                 "fan_in_uniform",    "dirac",      "whiten"};
  return names;
}

bool works_on_vectors(const std::string& rule) { return rule == "constant" || rule == "uniform" || rule == "normal"; }

void describe_initialiser(ParamSet<Initialiser>& set) {
  set.add("rule", &Initialiser::rule).choices(rules()).text("rule that sets the values");
  set.add("value", &Initialiser::value).text("the constant, the bound of uniform, or the deviation of normal");
}

// One axis of a sliding window.
struct Axis {
  std::int64_t kernel, stride, dilation, before, after;
  std::int64_t span() const { return dilation * (kernel - 1) + 1; }
};

std::pair<Axis, Axis> axes_of(const Window& window) {  // vertical, horizontal
  const Padding& pad = window.padding.fixed;
  return {{window.kernel.height, window.stride.height, window.dilation.height, pad.top, pad.bottom},
          {window.kernel.width, window.stride.width, window.dilation.width, pad.left, pad.right}};
}

// The extent covered by `places` windows, without the padding.
std::int64_t reach(const Axis& axis, std::int64_t places, bool same) {
  return same ? places * axis.stride : (places - 1) * axis.stride + axis.span() - axis.before - axis.after;
}

// The number of places, or 0; enlarges `after` if the last place ends outside.
std::int64_t places(Axis& axis, std::int64_t extent, bool same, bool round_up) {
  if (same) {  // the extra pixel of an odd sum goes to the end
    const std::int64_t count = (extent + axis.stride - 1) / axis.stride;
    const std::int64_t total = std::max<std::int64_t>(0, (count - 1) * axis.stride + axis.span() - extent);
    axis.before = total / 2;
    axis.after = total - axis.before;
    return count;
  }
  const std::int64_t room = extent + axis.before + axis.after - axis.span();
  if (room < 0) return 0;
  if (!round_up) return room / axis.stride + 1;
  std::int64_t count = (room + axis.stride - 1) / axis.stride + 1;
  if ((count - 1) * axis.stride >= extent + axis.before) --count;  // it would cover only padding
  axis.after = std::max(axis.after, (count - 1) * axis.stride + axis.span() - extent - axis.before);
  return count;
}

}  // namespace

Initialiser read_initialiser(const Value& value, const Initialiser& otherwise, int rank, Diagnostics& errors) {
  Initialiser result;
  if (value.kind() == Value::Kind::table) {
    if (value.table().empty()) return otherwise;
    ParamSet<Initialiser> set;
    describe_initialiser(set);
    result = read_struct(set, value, "initialiser", errors);
  } else if (value.is_number()) {
    result.value = value.number();
  } else if (value.kind() == Value::Kind::text) {
    result.rule = value.text();
    if (std::find(rules().begin(), rules().end(), result.rule) == rules().end()) {
      const auto nearest = nearest_name(result.rule, rules());
      errors.add(value.at(), fmt::format("unknown initialiser '{}'{}", result.rule,
                                         nearest ? fmt::format("; nearest is '{}'", *nearest)
                                                 : fmt::format("; there are {}", fmt::join(rules(), ", "))));
      return otherwise;
    }
  } else {
    errors.add(value.at(), fmt::format("an initialiser is a rule's name, a number, or a table {{ rule, value }}; found {}",
                                       to_string(value.kind())));
    return otherwise;
  }
  if (!std::isfinite(result.value)) {
    errors.add(value.at(), fmt::format("the value of an initialiser must be finite, found {}", result.value));
    return otherwise;
  }
  if (result.rule == "whiten" && rank != 4) {
    errors.add(value.at(), "the initialiser 'whiten' is for the weights of a conv");
    return otherwise;
  }
  if (rank < 2 && !works_on_vectors(result.rule)) {
    errors.add(value.at(), fmt::format("the initialiser '{}' is for weights with inputs and outputs; a vector takes constant, "
                                       "uniform or normal",
                                       result.rule));
    return otherwise;
  }
  return result;
}

Parameter weight_parameter(const WeightParams& params, const Shape& shape, const Initialiser& otherwise) {
  Diagnostics checked;
  Parameter weight;
  weight.name = "weight";
  weight.shape = shape;
  weight.initialiser = read_initialiser(params.initialiser, otherwise, shape.rank(), checked);
  weight.trainable = params.trainable;
  weight.rate_factor = params.rate_factor;
  weight.decay_factor = params.decay_factor;
  return weight;
}

Parameter bias_parameter(const WeightParams& params, const Shape& shape, const Initialiser& otherwise) {
  Diagnostics checked;
  Parameter bias;
  bias.name = "bias";
  bias.shape = shape;
  bias.initialiser = read_initialiser(params.bias_initialiser, otherwise, shape.rank(), checked);
  bias.trainable = params.bias_trainable;
  bias.rate_factor = params.bias_rate_factor;
  bias.decay_factor = params.bias_decay_factor;
  return bias;
}

PaddingRule read_padding(const Value& value, Diagnostics& errors) {
  const auto wrong = [&](const std::string& found) {
    errors.add(value.at(), fmt::format("'padding' must be an integer, [height, width], [top, left, bottom, right], \"same\" or "
                                       "\"valid\", found {}",
                                       found));
    return PaddingRule{};
  };
  if (value.kind() == Value::Kind::text) {
    if (value.text() == "same") return {.same = true, .fixed = {}};
    if (value.text() == "valid") return {};
    const auto nearest = nearest_name(value.text(), {"same", "valid"});
    return wrong(fmt::format("\"{}\"{}", value.text(), nearest ? fmt::format("; nearest is \"{}\"", *nearest) : ""));
  }
  std::vector<std::int64_t> figures;
  if (value.kind() == Value::Kind::integer) {
    figures = {value.integer()};
  } else if (value.kind() == Value::Kind::array) {
    for (const Value& entry : value.array()) {
      if (entry.kind() != Value::Kind::integer) return wrong(std::string("a list with ") + to_string(entry.kind()));
      figures.push_back(entry.integer());
    }
  } else {
    return wrong(to_string(value.kind()));
  }
  if (std::any_of(figures.begin(), figures.end(), [](std::int64_t figure) { return figure < 0 || figure > 4096; })) {
    errors.add(value.at(), "'padding' must lie between 0 and 4096 pixels");
    return {};
  }
  switch (figures.size()) {
    case 1: return {.same = false, .fixed = {figures[0], figures[0], figures[0], figures[0]}};
    case 2: return {.same = false, .fixed = {figures[0], figures[1], figures[0], figures[1]}};
    case 4: return {.same = false, .fixed = {figures[0], figures[1], figures[2], figures[3]}};
    default: return wrong(fmt::format("a list of {}", figures.size()));
  }
}

void require_maps(const Shape& input) {
  if (input.rank() == 3) return;
  fail(ErrorKind::usage,
       "needs maps (channels x height x width), but its input is {}, a vector: place it before the layer that flattens",
       to_string(input));
}

Placement place(const Window& window, const Shape& input) {
  const Padding& pad = window.padding.fixed;
  auto [vertical, across] = axes_of(window);
  if (std::max(pad.top, pad.bottom) >= vertical.span() || std::max(pad.left, pad.right) >= across.span()) {
    fail(ErrorKind::usage, "padding {}, {}, {}, {} (top, left, bottom, right) must be smaller than the kernel, {} x {}", pad.top,
         pad.left, pad.bottom, pad.right, vertical.span(), across.span());
  }
  Placement result;
  result.height = places(vertical, input[1], window.padding.same, window.round_up);
  result.width = places(across, input[2], window.padding.same, window.round_up);
  if (result.height < 1 || result.width < 1) {
    fail(ErrorKind::usage,
         "a kernel of {} x {}{} does not fit into its input {}: use a kernel of at most {} x {}, padding = \"same\", or a larger "
         "input",
         window.kernel.height, window.kernel.width,
         vertical.dilation > 1 || across.dilation > 1 ? fmt::format(" (dilated to {} x {})", vertical.span(), across.span()) : "",
         to_string(input), (input[1] + pad.top + pad.bottom - 1) / vertical.dilation + 1,
         (input[2] + pad.left + pad.right - 1) / across.dilation + 1);
  }
  result.padding = {vertical.before, across.before, vertical.after, across.after};
  return result;
}

Placement place_transposed(const Window& window, const Size& output_padding, const Shape& input) {
  const Size& stride = window.stride;
  const Padding& cut = window.padding.fixed;
  if (output_padding.height >= stride.height || output_padding.width >= stride.width) {
    fail(ErrorKind::usage, "output_padding {}, {} (height, width) must be smaller than the stride, {} x {}",
         output_padding.height, output_padding.width, stride.height, stride.width);
  }
  if (window.padding.same && (output_padding.height > 0 || output_padding.width > 0)) {
    fail(ErrorKind::usage, "padding = \"same\" takes no output_padding: the output is the input times the stride");
  }
  const auto [vertical, across] = axes_of(window);
  const std::int64_t height = reach(vertical, input[1], window.padding.same) + output_padding.height;
  const std::int64_t width = reach(across, input[2], window.padding.same) + output_padding.width;
  if (height < 1 || width < 1) {
    fail(ErrorKind::usage, "padding {}, {}, {}, {} (top, left, bottom, right) leaves nothing of an output of {} x {}: use less",
         cut.top, cut.left, cut.bottom, cut.right, height + cut.top + cut.bottom, width + cut.left + cut.right);
  }
  return {place(window, {input[0], height, width}).padding, height, width};
}

Initialiser default_bias(std::int64_t fan_in) { return {"uniform", 1 / std::sqrt(static_cast<double>(fan_in))}; }

void check_initialisers(const WeightParams& params, int rank, Diagnostics& errors) {
  read_initialiser(params.initialiser, {}, rank, errors);
  read_initialiser(params.bias_initialiser, {}, 1, errors);
}

LayerType make_layer_type(const PlainDefinition& definition) {
  return make_layer_type<NoParams>({.name = definition.name,
                                    .text = definition.text,
                                    .examples = definition.examples,
                                    .least_inputs = definition.least_inputs,
                                    .most_inputs = definition.most_inputs,
                                    .describe = [](ParamSet<NoParams>&) {},
                                    .infer = definition.infer,
                                    .write_onnx = definition.write_onnx});
}

LayerPlan same_shape(const NoParams&, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  return plan;
}

void write_onnx_identity(OnnxLayer& onnx) { onnx.output(onnx.input()); }

std::vector<std::int64_t> onnx_pads(const Padding& padding) { return {padding.top, padding.left, padding.bottom, padding.right}; }

}  // namespace millrace::ops
