#include <utility>

#include "testkit/plain.h"

namespace millrace::testkit {

Network small_network(ImageShape input, int hidden, int classes) {
  Network network;
  network.name = "small";
  network.input = input;
  network.mean.assign(static_cast<std::size_t>(input.channels), 0.5);
  network.deviation.assign(static_cast<std::size_t>(input.channels), 0.25);
  Shape shape{input.channels, input.height, input.width};
  const auto add = [&](std::string name, const std::string& op, const Shape& output) {
    Layer layer;
    layer.name = std::move(name);
    layer.op = op;
    layer.inputs = {static_cast<int>(network.layers.size()) - 1};
    layer.input_shapes = {shape};
    layer.output = shape = output;
    network.layers.push_back(std::move(layer));
    return &network.layers.back();
  };
  const auto add_linear = [&](const std::string& name, int out) {
    const std::int64_t in = shape.elements();
    Layer* layer = add(name, "linear", {out});
    layer->attributes = std::make_shared<LinearAttributes>(LinearAttributes{.out = out});
    layer->parameters = {static_cast<int>(network.parameters.size()), static_cast<int>(network.parameters.size()) + 1};
    network.parameters.push_back({.name = name + ".weight", .shape = {out, in}, .initialiser = {.rule = "he_normal"}});
    network.parameters.push_back({.name = name + ".bias", .shape = {out}, .initialiser = {}});
  };
  add_linear("fc1", hidden);
  add("relu", "relu", {hidden});
  add_linear("fc2", classes);
  return network;
}

}  // namespace millrace::testkit
