#include "network/onnx.h"

#include <fmt/format.h>

#include <map>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/layer.h"

namespace millrace {
namespace {

constexpr const char* kInputValue = "input";
constexpr const char* kOutputValue = "output";

// By layer: whether `result` depends on it.
std::vector<bool> needed_for(const Network& network, std::size_t result) {
  std::vector<bool> needed(network.layers.size(), false);
  needed[result] = true;
  for (std::size_t i = result + 1; i-- > 0;) {
    if (!needed[i]) continue;
    for (const LayerPort input : network.layers[i].inputs) {
      if (input.layer != Network::kInput) needed[static_cast<std::size_t>(input.layer)] = true;
    }
  }
  return needed;
}

std::size_t index_of(const Network& network, const std::string& layer) {
  if (layer.empty()) return network.layers.size() - 1;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    if (network.layers[i].name == layer) return i;
    names.push_back(network.layers[i].name);
  }
  const auto nearest = nearest_name(layer, names);
  fail(ErrorKind::usage, "the network '{}' has no layer '{}'{}", network.name, layer,
       nearest ? fmt::format("; nearest is '{}'", *nearest) : "");
}

void write(const Layer& layer, const Registry& registry, OnnxLayer& onnx) {
  const LayerType* const type = registry.layers().find(layer.op);
  if (type != nullptr && type->write_onnx) return type->write_onnx(onnx);
  if (layer.portable) return layer.portable->write_onnx(onnx);
  fail(ErrorKind::usage, "its type has no form in ONNX");
}

// The last name of a value is `to` instead of `from`.
void rename_value(OnnxGraph& graph, const std::string& from, const std::string& to) {
  const auto change = [&](std::vector<std::string>& names) {
    for (std::string& name : names) {
      if (name == from) name = to;
    }
  };
  for (OnnxNode& node : graph.nodes) {
    change(node.inputs);
    change(node.outputs);
  }
}

}  // namespace

OnnxLayer::OnnxLayer(const Layer& layer, std::vector<std::string> inputs, const std::vector<std::string>& parameter_names,
                     OnnxGraph& graph)
    : layer_(layer),
      inputs_(std::move(inputs)),
      parameter_names_(parameter_names),
      graph_(graph),
      outputs_(static_cast<std::size_t>(layer.output_count())) {}

const Shape& OnnxLayer::input_shape(int index) const { return layer_.input_shapes[static_cast<std::size_t>(index)]; }

const Shape& OnnxLayer::output_shape(int port) const { return layer_.output_of(port); }

std::string OnnxLayer::unique(std::string_view part) {
  return fmt::format("{}/{}{}", layer_.name, part, values_++ == 0 ? "" : fmt::format("_{}", values_));
}

std::string OnnxLayer::parameter(int index, std::vector<std::int64_t> shape) {
  const int parameter = layer_.parameters[static_cast<std::size_t>(index)];
  std::string name = parameter_names_[static_cast<std::size_t>(parameter)];
  if (!shape.empty()) name = fmt::format("{} as {}", name, fmt::join(shape, "x"));
  for (const OnnxParameter& known : graph_.parameters) {  // layers that share parameters
    if (known.name == name) return name;
  }
  graph_.parameters.push_back({name, parameter, std::move(shape)});
  return name;
}

std::string OnnxLayer::constant(std::vector<std::int64_t> shape, std::vector<float> values) {
  graph_.constants.push_back({unique("constant"), std::move(shape), std::move(values)});
  return graph_.constants.back().name;
}

std::string OnnxLayer::integers(std::vector<std::int64_t> values) {
  graph_.constants.push_back({unique("constant"), {static_cast<std::int64_t>(values.size())}, std::move(values)});
  return graph_.constants.back().name;
}

std::string OnnxLayer::add(std::string_view op, std::vector<std::string> inputs, std::vector<OnnxAttribute> attributes) {
  return add_many(1, op, std::move(inputs), std::move(attributes)).front();
}

std::vector<std::string> OnnxLayer::add_many(std::size_t count, std::string_view op, std::vector<std::string> inputs,
                                             std::vector<OnnxAttribute> attributes) {
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < count; ++i) outputs.push_back(unique(op));
  graph_.nodes.push_back({std::string(op), std::move(inputs), outputs, std::move(attributes)});
  return outputs;
}

void OnnxLayer::output(std::string value, int port) { outputs_[static_cast<std::size_t>(port)] = std::move(value); }

OnnxNetwork onnx_network(const Network& network, const Registry& registry, const std::string& layer, bool has_free_size) {
  const std::size_t result = index_of(network, layer);
  const std::vector<bool> needed = needed_for(network, result);
  std::vector<std::string> parameter_names;
  for (const Parameter& parameter : network.parameters) parameter_names.push_back(parameter.name);

  OnnxNetwork onnx;
  onnx.graph.has_free_size = has_free_size;
  std::map<LayerPort, std::string> values{{Network::kInput, kInputValue}};
  Diagnostics errors;
  for (std::size_t i = 0; i <= result; ++i) {
    if (!needed[i]) continue;
    const Layer& each = network.layers[i];
    std::vector<std::string> inputs;
    for (const LayerPort input : each.inputs) inputs.push_back(values[input]);
    OnnxLayer nodes(each, std::move(inputs), parameter_names, onnx.graph);
    try {
      write(each, registry, nodes);
    } catch (const Error& error) {
      errors.add(each.at, fmt::format("layer '{}' ({}) cannot be written as ONNX: {}", each.name, each.op, error.what()));
    }
    for (int port = 0; port < each.output_count(); ++port)
      values[{static_cast<int>(i), port}] = nodes.outputs()[static_cast<std::size_t>(port)];
  }
  errors.throw_if_any();

  // A result that is also the input, as that of a network of dropout alone, needs a node of its own.
  const std::string& value = values[static_cast<int>(result)];
  if (value == kInputValue)
    onnx.graph.nodes.push_back({"Identity", {kInputValue}, {kOutputValue}, {}});
  else
    rename_value(onnx.graph, value, kOutputValue);
  onnx.output = network.layers[result].output;
  return onnx;
}

}  // namespace millrace
