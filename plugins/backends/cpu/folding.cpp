#include "folding.h"

#include <algorithm>

#include "millrace/backend/int8.h"
#include "parameter_store.h"

namespace millrace::cpu {
namespace {

bool is_folded_kind(const Network& network, const Node& node) {
  const Layer& layer = network.layers[static_cast<std::size_t>(node.layer)];
  return node.kind == Node::Kind::conv && node.output == node.layer && !layer.as<ConvAttributes>().transposed && !is_int8(layer);
}

}  // namespace

std::vector<Node> folded(const Network& network, std::vector<Node> nodes, std::span<const LayerPort> outputs) {
  std::vector<int> readers(network.layers.size()), made_by(network.layers.size(), -1);
  const auto count = [&](LayerPort value) {
    if (value.layer >= 0) ++readers[static_cast<std::size_t>(value.layer)];
  };
  for (const LayerPort value : outputs) count(value);
  for (const Node& node : nodes) std::ranges::for_each(node.inputs, count);
  std::vector<Node> kept;
  for (Node& node : nodes) {
    const int from = node.inputs.front().layer;
    const bool reads_one = node.kind == Node::Kind::normalise && node.pool < 0 && from >= 0;
    const int maker = reads_one ? made_by[static_cast<std::size_t>(from)] : -1;
    // The convolution moves to the place of its normalisation, where the residual is available.
    if (maker >= 0 && readers[static_cast<std::size_t>(from)] == 1 &&
        is_folded_kind(network, kept[static_cast<std::size_t>(maker)])) {
      Node conv = std::move(kept[static_cast<std::size_t>(maker)]);
      kept[static_cast<std::size_t>(maker)].output = -1;  // left out below
      conv.residual = node.residual;
      conv.activation = node.activation;
      conv.output = node.output;
      conv.norm = node.layer;
      conv.inputs.insert(conv.inputs.end(), node.inputs.begin() + 1, node.inputs.end());
      node = std::move(conv);
    }
    made_by[static_cast<std::size_t>(node.output)] = static_cast<int>(kept.size());
    kept.push_back(std::move(node));
  }
  std::erase_if(kept, [](const Node& node) { return node.output < 0; });
  return kept;
}

const Layer* folded_norm(const Network& network, const Node& node) {
  return node.norm < 0 ? nullptr : &network.layers[static_cast<std::size_t>(node.norm)];
}

NormaliseArguments normalise_arguments(const ParameterStore& parameters, const Layer& norm) {
  const auto& attributes = norm.as<BatchNormAttributes>();
  auto next = norm.parameters.begin();
  const auto take = [&] { return parameters.value(*next++); };
  NormaliseArguments arguments;
  arguments.epsilon = static_cast<float>(attributes.epsilon);
  if (attributes.scale) arguments.scale = take();
  if (attributes.shift) arguments.shift = take();
  arguments.mean = take();
  arguments.variance = take();
  return arguments;
}

}  // namespace millrace::cpu
