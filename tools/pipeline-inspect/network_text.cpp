#include <fmt/format.h>

#include "common/text_table.h"
#include "inspect.h"
#include "millrace/util/json_lines.h"
#include "network/published.h"
#include "weight_files/fetched_weights.h"

namespace millrace {

namespace {

std::string by(const Size& size) { return fmt::format("{}x{}", size.height, size.width); }

// One number if both are equal: "stride 2", "stride 2x1".
std::string pair(const Size& size) { return size.height == size.width ? std::to_string(size.height) : by(size); }

std::string padding(const Padding& p) {
  if (p.top == p.left && p.top == p.bottom && p.top == p.right) return p.top == 0 ? "" : fmt::format(", padding {}", p.top);
  return fmt::format(", padding {} {} {} {}", p.top, p.left, p.bottom, p.right);
}

std::string describe(const ConvAttributes& conv, const Shape& input) {
  std::string out = fmt::format("{} {}x{} {}convolutions, stride {}{}", conv.out, by(conv.kernel), input[0] / conv.groups,
                                conv.transposed ? "transposed " : "", pair(conv.stride), padding(conv.padding));
  if (conv.dilation.height != 1 || conv.dilation.width != 1) out += ", dilation " + pair(conv.dilation);
  if (conv.groups != 1) out += fmt::format(", {} groups", conv.groups);
  return out + (conv.bias ? "" : ", no bias");
}

std::string describe(const Layer& layer) {
  const Shape input = layer.input_shapes.empty() ? Shape() : layer.input_shapes[0];
  if (layer.op == "conv" || layer.op == "transposed_conv") return describe(layer.as<ConvAttributes>(), input);
  if (layer.op == "linear") {
    return fmt::format("{} -> {}{}", input.elements(), layer.as<LinearAttributes>().out,
                       layer.as<LinearAttributes>().bias ? "" : ", no bias");
  }
  if (layer.op == "batch_norm") {
    const auto& norm = layer.as<BatchNormAttributes>();
    return fmt::format("{} channels{}{}", input[0], norm.scale ? "" : ", scale fixed", norm.shift ? "" : ", no shift");
  }
  if (layer.op == "max_pool" || layer.op == "average_pool") {
    const auto& pool = layer.as<PoolAttributes>();
    return fmt::format("{}, stride {}{}", by(pool.kernel), pair(pool.stride), padding(pool.padding));
  }
  if (layer.op == "dropout" || layer.op == "stochastic_depth") {
    const auto& drops = layer.as<DropoutAttributes>();
    const char* const together = drops.by_pixel ? "" : drops.by_channel ? " of each channel" : " of each sample";
    return fmt::format("probability {}{}", drops.probability, together);
  }
  if (layer.op == "scale") return fmt::format("times {:.6g}", layer.as<ScaleAttributes>().factor);
  if (layer.op == "lrn") return fmt::format("across {} channels", layer.as<LrnAttributes>().size);
  return "";
}

// A layer's inputs, if not only the layer before it.
std::string sources(const Network& network, std::size_t index) {
  const std::vector<LayerPort>& inputs = network.layers[index].inputs;
  if (inputs.size() == 1 && inputs[0] == static_cast<int>(index) - 1) return "";
  std::vector<std::string> names;
  for (const LayerPort input : inputs) {
    names.push_back(input == Network::kInput ? "input" : network.layers[static_cast<std::size_t>(input.layer)].name);
    if (input.port > 0) names.back() += fmt::format(":{}", input.port + 1);
  }
  return index == 0 && names == std::vector<std::string>{"input"} ? "" : fmt::format("{}", fmt::join(names, ", "));
}

std::uint64_t elements(const Network& network, const Layer& layer) {
  std::uint64_t sum = 0;
  for (const int index : layer.parameters) {
    const Parameter& parameter = network.parameters[static_cast<std::size_t>(index)];
    if (!parameter.statistic) sum += static_cast<std::uint64_t>(parameter.shape.elements());
  }
  return sum;
}

// The size in bytes of all its outputs, for one image in float32.
std::uint64_t activation_bytes(const Layer& layer) {
  std::uint64_t elements = 0;
  for (int port = 0; port < layer.output_count(); ++port)
    elements += static_cast<std::uint64_t>(layer.output_of(port).elements());
  return elements * sizeof(float);
}

std::string figure(std::uint64_t number) { return number == 0 ? "" : grouped(number); }

std::string totals(const Network& network) {
  std::uint64_t trained = 0, fixed = 0, statistics = 0, multiply_adds = 0, activations = 0;
  for (const Parameter& parameter : network.parameters) {
    (parameter.statistic   ? statistics
     : parameter.trainable ? trained
                           : fixed) += static_cast<std::uint64_t>(parameter.shape.elements());
  }
  for (const Layer& layer : network.layers) {
    multiply_adds += layer.multiply_adds;
    activations += activation_bytes(layer);
  }
  std::string out = fmt::format("{} layers, {} trained parameters", network.layers.size(), grouped(trained));
  if (fixed > 0) out += fmt::format(", {} fixed", grouped(fixed));
  if (statistics > 0) out += fmt::format(", {} running statistics", grouped(statistics));
  out += fmt::format(", {} multiply-adds an image ({:.2f} GMACs, {:.2f} GFLOPs)\n", grouped(multiply_adds),
                     static_cast<double>(multiply_adds) / 1e9, 2 * static_cast<double>(multiply_adds) / 1e9);
  return out + fmt::format("in float32: {} bytes of parameters and statistics, {} bytes of activations an image\n",
                           grouped((trained + fixed + statistics) * sizeof(float)), grouped(activations));
}

}  // namespace

std::string describe_published(const Value& document) {
  std::string text;
  Diagnostics errors;
  for (const PublishedWeights& each : published_weights(document, errors)) {
    const std::string digits = each.sha256.empty() ? hash_in_name(each.url) : each.sha256;
    text += fmt::format("weights = \"{}\": {}{}\n", each.name, each.url,
                        digits.empty()        ? ", unchecked"
                        : each.sha256.empty() ? fmt::format(", its SHA-256 begins with {}, as in its name", digits)
                                              : fmt::format(", SHA-256 {}", digits));
  }
  errors.throw_if_any();
  return text;
}

std::string describe_network(const Network& network) {
  TextTable table({">", "name", "op", "", "takes", "output", ">parameters", ">multiply-adds", ">activation bytes"});
  table.row({"", "input", "", "(channels x height x width)", "",
             fmt::format("{} x {} x {}", network.input.channels, network.input.height, network.input.width)});
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    table.row({std::to_string(i + 1), layer.name, layer.op, describe(layer), sources(network, i), to_string(layer.output),
               figure(elements(network, layer)), figure(layer.multiply_adds), figure(activation_bytes(layer))});
  }
  return fmt::format("{}\n", network.name) + table.text() + totals(network);
}

std::string list_parameters(const Network& network) {
  std::string out;
  for (const Parameter& parameter : network.parameters) {
    const char* kind = parameter.statistic ? "statistic" : parameter.trainable ? "trained" : "fixed";
    JsonLine line;
    line.add("name", parameter.name).add("kind", kind).add("initialiser", parameter.initialiser.rule);
    line.add("value", parameter.initialiser.value);
    if (!parameter.stored_name.empty()) line.add("stored_name", parameter.stored_name);
    std::string text = line.text();
    text.pop_back();
    const auto extents = [](const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ",")); };
    if (parameter.stored_shape.rank() > 0) text += ",\"stored_shape\":" + extents(parameter.stored_shape);
    out += fmt::format("{},\"shape\":{}}}\n", text, extents(parameter.shape));
  }
  return out;
}

}  // namespace millrace
