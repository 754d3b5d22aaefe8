#include "millrace/backend/learning_phases.h"

#include <algorithm>
#include <set>

namespace millrace {
namespace {

bool is_trained(const Parameter& parameter) { return parameter.trainable && !parameter.statistic; }

// By layer: the epoch from which neither the layer nor any layer before it learns.
std::vector<double> layers_until(const Network& network, const std::vector<double>& learns_until) {
  std::vector<double> until;
  for (const Layer& layer : network.layers) {
    double own = 0;
    for (const int index : layer.parameters) {
      const auto at = static_cast<std::size_t>(index);
      if (is_trained(network.parameters[at])) own = std::max(own, learns_until[at]);
    }
    for (const LayerPort input : layer.inputs) {
      if (input.layer >= 0) own = std::max(own, until[static_cast<std::size_t>(input.layer)]);
    }
    until.push_back(own);
  }
  return until;
}

}  // namespace

std::vector<double> backward_until(const Network& network, const CompileRequest& request) {
  std::vector<double> result(network.parameters.size(), kToTheEnd);
  if (request.update.learns_until.empty() || request.reads_all_gradients) return result;
  const std::vector<double> layers = layers_until(network, request.update.learns_until);
  const double last = layers.empty() ? 0 : std::ranges::max(layers);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer] == last) continue;
    for (const int index : network.layers[layer].parameters) result[static_cast<std::size_t>(index)] = layers[layer];
  }
  return result;
}

LearningPhases::LearningPhases(const Network& network, const CompileRequest& request) {
  const std::vector<double> until = backward_until(network, request);
  std::set<double> begins = {0};
  for (std::size_t index = 0; index < until.size(); ++index) {
    if (is_trained(network.parameters[index]) && until[index] != kToTheEnd) begins.insert(until[index]);
  }
  for (const double begin : begins) {
    Network& computed = phases_.emplace_back(Phase{begin, network}).network;
    for (std::size_t index = 0; index < until.size(); ++index) {
      if (begin >= until[index]) computed.parameters[index].trainable = false;
    }
  }
}

std::size_t LearningPhases::at(std::uint64_t epoch) const {
  const auto later = [epoch](const Phase& phase) { return phase.begin > static_cast<double>(epoch); };
  return static_cast<std::size_t>(std::ranges::find_if(phases_, later) - phases_.begin()) - 1;
}

}  // namespace millrace
