#include "millrace/backend/fusion.h"

#include <algorithm>
#include <limits>
#include <map>

#include "millrace/error.h"

namespace millrace {
namespace {

// In a window that is fused into a batch normalisation: the largest's index is stored in a byte.
constexpr std::int64_t kMaxPooledPlaces = 256;

std::int64_t places_of(const PoolAttributes& pool) { return pool.kernel.height * pool.kernel.width; }

const std::map<std::string, Node::Kind, std::less<>>& kinds() {
  using Kind = Node::Kind;
  static const std::map<std::string, Kind, std::less<>> table = {
      {"conv", Kind::conv},
      {"transposed_conv", Kind::conv},
      {"linear", Kind::linear},
      {"batch_norm", Kind::normalise},
      {"max_pool", Kind::pool},
      {"average_pool", Kind::pool},
      {"global_average_pool", Kind::pool},
      {"relu", Kind::activate},
      {"gelu", Kind::activate},
      {"add", Kind::add},
      {"concat", Kind::concat},
      {"dropout", Kind::dropout},
      {"scale", Kind::scale},
      {"softmax", Kind::softmax},
      {"flatten", Kind::flatten},
      {"lrn", Kind::lrn},
      {"split", Kind::split},
      {"stochastic_depth", Kind::dropout},
  };
  return table;
}

class Fuser {
 public:
  Fuser(const Network& network, const FusionOptions& options)
      : network_(network), options_(options), readers_(network.layers.size()), taken_(network.layers.size()) {
    const std::vector<bool> wanted = layers_for(network, options.outputs);
    for (int index = 0; index < static_cast<int>(network.layers.size()); ++index) {
      taken_[static_cast<std::size_t>(index)] = !wanted[static_cast<std::size_t>(index)];
      if (taken_[static_cast<std::size_t>(index)]) continue;
      for (const LayerPort input : layer(index).inputs) {
        if (input.layer >= 0) readers_[static_cast<std::size_t>(input.layer)].push_back({index, input.port});
      }
    }
    for (const LayerPort output : options.outputs) {
      readers_[static_cast<std::size_t>(output.layer)].push_back({kOutside, output.port});
    }
  }

  std::vector<Node> run() {
    for (int index = 0; index < static_cast<int>(network_.layers.size()); ++index) {
      if (!taken_[static_cast<std::size_t>(index)]) nodes_.push_back(start(index));
    }
    // A node with fused later layers is computed at the position of the last one.
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.output < b.output; });
    return std::move(nodes_);
  }

 private:
  static constexpr int kOutside = -1;
  struct Reader {
    int layer, port;  // the port it reads
  };
  const Layer& layer(int index) const { return network_.layers[static_cast<std::size_t>(index)]; }

  // The only layer that reads this one, through its first output; -1 if there are several readers, or one outside.
  int only_reader(int index) const {
    const std::vector<Reader>& readers = readers_[static_cast<std::size_t>(index)];
    return readers.size() == 1 && readers.front().port == 0 ? readers.front().layer : -1;
  }

  void take(Node& node, int index) {
    taken_[static_cast<std::size_t>(index)] = true;
    node.output = index;
  }

  void take_activation(Node& node) {
    const int next = only_reader(node.output);
    if (next < 0) return;
    if (layer(next).op == "relu") node.activation = Activation::relu;
    if (layer(next).op == "gelu") node.activation = Activation::gelu;
    if (node.activation != Activation::none) take(node, next);
  }

  // The last operand of an addition fuses it, so that the others are available.
  void take_residual(Node& node) {
    const int next = only_reader(node.output);
    if (next < 0 || layer(next).op != "add" || layer(next).inputs.size() != 2) return;
    const std::vector<LayerPort>& operands = layer(next).inputs;
    const LayerPort other = operands[0] == node.output ? operands[1] : operands[0];
    if (other.layer >= node.output) return;
    node.residual = other;
    node.inputs.push_back(other);
    take(node, next);
  }

  bool can_take_pool(int index) const {
    const int next = options_.pool_with_statistics ? only_reader(index) : -1;
    if (layer(index).op != "max_pool" || next < 0 || layer(next).op != "batch_norm") return false;
    const auto& pool = layer(index).as<PoolAttributes>();
    return pool.kernel.height <= pool.stride.height && pool.kernel.width <= pool.stride.width &&
           places_of(pool) <= kMaxPooledPlaces;
  }

  void take_pool_behind(Node& node) {
    const int next = options_.pool_behind_relu ? only_reader(node.output) : -1;
    if (next < 0 || layer(next).op != "max_pool" || places_of(layer(next).as<PoolAttributes>()) > kMaxPooledPlaces) return;
    if (node.residual != kNoResidual || node.activation != Activation::relu) return;
    node.pool_behind = next;
    take(node, next);
  }

  Node start(int index) {
    const auto kind = kinds().find(layer(index).op);
    const bool native = kind != kinds().end();
    if (!native && layer(index).portable == nullptr) {
      fail(ErrorKind::usage, "{}: backend '{}' has no op '{}'", place_of(layer(index)), options_.backend, layer(index).op);
    }
    Node node{.kind = native ? kind->second : Node::Kind::portable, .layer = index, .inputs = layer(index).inputs};
    take(node, index);
    if (can_take_pool(index)) {
      node.kind = Node::Kind::normalise;
      node.pool = index;
      node.layer = only_reader(index);
      take(node, node.layer);
    }
    if (node.kind == Node::Kind::normalise) take_residual(node);
    if (node.kind == Node::Kind::activate) {
      node.activation = layer(index).op == "relu" ? Activation::relu : Activation::gelu;
    } else if (node.kind == Node::Kind::conv || node.kind == Node::Kind::linear || node.kind == Node::Kind::normalise) {
      take_activation(node);
    }
    if (node.kind == Node::Kind::normalise) take_pool_behind(node);
    return node;
  }

  const Network& network_;
  const FusionOptions& options_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<bool> taken_;  // has a node, or needs none
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<Node> fuse(const Network& network, const FusionOptions& options) { return Fuser(network, options).run(); }

std::vector<bool> layers_for(const Network& network, std::span<const LayerPort> outputs) {
  std::vector<bool> wanted(network.layers.size());
  wanted.back() = true;
  for (const LayerPort output : outputs) wanted[static_cast<std::size_t>(output.layer)] = true;
  for (std::size_t index = wanted.size(); index-- > 0;) {
    if (!wanted[index]) continue;
    for (const LayerPort input : network.layers[index].inputs) {
      if (input.layer >= 0) wanted[static_cast<std::size_t>(input.layer)] = true;
    }
  }
  return wanted;
}

std::string place_of(const Layer& layer) {
  const std::string at = to_string(layer.at);
  return fmt::format("{}{}layer '{}'", at, at.empty() ? "" : ": ", layer.name);
}

int final_linear(const std::vector<Node>& nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (node->kind == Node::Kind::linear) return node->output;
    if (node->kind != Node::Kind::scale && node->kind != Node::Kind::softmax) return -1;
  }
  return -1;
}

bool trains_anything(const Network& network, const Layer& layer) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(), [&](int index) {
    const Parameter& parameter = network.parameters[static_cast<std::size_t>(index)];
    return parameter.trainable && !parameter.statistic;
  });
}

std::vector<int> first_nodes(const Network& network, const std::vector<Node>& nodes, const std::vector<Bucket>& buckets) {
  std::vector<int> node_of(network.parameters.size(), std::numeric_limits<int>::max());
  for (int node = static_cast<int>(nodes.size()); node-- > 0;) {
    const Layer& layer = network.layers[static_cast<std::size_t>(nodes[static_cast<std::size_t>(node)].layer)];
    for (const int parameter : layer.parameters) node_of[static_cast<std::size_t>(parameter)] = node;
  }
  std::vector<int> result;
  for (const Bucket& bucket : buckets) {
    int first = std::numeric_limits<int>::max();
    for (const int parameter : bucket.parameters) first = std::min(first, node_of[static_cast<std::size_t>(parameter)]);
    result.push_back(first);
  }
  return result;
}

}  // namespace millrace
