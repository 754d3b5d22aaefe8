// Chooses layers that are computed together, so that fewer maps are written and kept. Pure.
//
// A layer can join its neighbour's node if no other layer reads the value between them, or any output after its first:
//   conv | transposed_conv | linear, then relu | gelu             applies the activation as it writes the result
//   max_pool, batch_norm, then relu | gelu                        if enabled: the pooling also computes the statistics
//   batch_norm, then add, then relu | gelu                        the end of a residual block
//   batch_norm, then relu, then max_pool                          if enabled: the stem of a residual network
// A value that is read outside (FusionOptions::outputs) is its node's last. A layer whose outputs nothing reads has no node.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "millrace/backend/activation.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

struct Node {
  // clang-format off
  enum class Kind {
    conv, linear, normalise, pool, activate, add, concat, split, dropout, scale, softmax, flatten, lrn, portable
  };
  // clang-format on
  Kind kind = Kind::activate;  // transposed_conv: conv, with ConvAttributes::transposed
  int layer = -1;              // the layer that names the node: conv, batch_norm, ...
  int pool = -1;               // normalise: the max_pool before it, or -1
  int pool_behind = -1;        // normalise: the max_pool after its relu, or -1
  LayerPort residual = -2;     // normalise: the value added; -2: none
  Activation activation = Activation::none;
  std::vector<LayerPort> inputs;  // inputs, the residual last
  int output = -1;                // the layer whose outputs the node computes
  int norm = -1;                  // conv: the batch_norm that a backend has folded into it, or -1
};

inline constexpr LayerPort kNoResidual = -2;

struct FusionOptions {
  std::string backend;  // for messages
  // Fuse a max pooling without overlap, of at most 256 places, into the batch normalisation after it.
  bool pool_with_statistics = false;
  // Fuse a max pooling of at most 256 places into the batch normalisation and ReLU before it.
  bool pool_behind_relu = false;
  std::vector<LayerPort> outputs = {};  // values read outside layers, in addition to the network's result
};

// Ordered so that each node follows its inputs, without layers that nothing reads. Throws Error(usage) for an op that is not
// built in.
std::vector<Node> fuse(const Network& network, const FusionOptions& options);

// By layer: whether the network's result or one of these values depends on it.
std::vector<bool> layers_for(const Network& network, std::span<const LayerPort> outputs);

// ---- Queries of backends about nodes and layers ----

// For messages: "networks/mine.toml:5:3: layer 'conv1'", without the position if the layer comes from no file.
std::string place_of(const Layer& layer);

// The output of the linear layer that yields the logits, with at most scaling after it, or -1. It is computed in float32 to the
// end even if activations are bf16.
int final_linear(const std::vector<Node>& nodes);

bool trains_anything(const Network& network, const Layer& layer);

// By bucket: the first node in forward order, thus the last in backward, that has parameters in it.
std::vector<int> first_nodes(const Network& network, const std::vector<Node>& nodes, const std::vector<Bucket>& buckets);

}  // namespace millrace
