// Which layers are computed together, so that fewer maps are written and kept. Pure.
//
// A layer can be taken into its neighbour's node when no other layer reads what passes between them, nor any output after its
// first:
//   conv | transposed_conv | linear, then relu | gelu             the activation is done as the result is written
//   max_pool, batch_norm, then relu | gelu                        if asked: the pooling also finds the statistics
//   batch_norm, then add, then relu | gelu                        the end of a residual block
//   batch_norm, then relu, then max_pool                          if asked: the stem of a residual network
// A value that is read outside (FusionOptions::outputs) is the last of its node. A layer that leads to no value that is read has
// no node.
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
  int layer = -1;              // the conv, the batch_norm, ...: the layer that names the node
  int pool = -1;               // normalise: the max_pool before it, or -1
  int pool_behind = -1;        // normalise: the max_pool after its relu, or -1
  LayerPort residual = -2;     // normalise: what is added; -2: nothing
  Activation activation = Activation::none;
  std::vector<LayerPort> inputs;  // what it reads, the residual last
  int output = -1;                // the layer whose outputs it makes
};

inline constexpr LayerPort kNoResidual = -2;

struct FusionOptions {
  std::string backend;  // for messages
  // Take a max pooling without overlap, of at most 256 places, into the batch normalisation after it.
  bool pool_with_statistics = false;
  // Take a max pooling of at most 256 places into the batch normalisation and ReLU in front of it.
  bool pool_behind_relu = false;
  std::vector<LayerPort> outputs = {};  // values that are read by others than layers, beside the network's result
};

// In an order in which each node's inputs come before it, and without layers that lead to nothing that is read. Throws
// Error(usage) for an op that is none of the built-in ones.
std::vector<Node> fuse(const Network& network, const FusionOptions& options);

// By layer: whether the network's result or one of these values depends on it.
std::vector<bool> layers_for(const Network& network, std::span<const LayerPort> outputs);

// ---- What backends ask of nodes and layers ----

// For messages: "networks/mine.toml:5:3: layer 'conv1'", without the place for a layer that no file holds.
std::string place_of(const Layer& layer);

// The output of the linear layer that becomes the logits with nothing but scaling after it, or -1. It is computed in float32 to
// its end even where activations are bf16.
int final_linear(const std::vector<Node>& nodes);

bool trains_anything(const Network& network, const Layer& layer);

// By bucket: the first node of forward, so the last one of backward, that has parameters in it.
std::vector<int> first_nodes(const Network& network, const std::vector<Node>& nodes, const std::vector<Bucket>& buckets);

}  // namespace millrace
