// Which layers are computed together, so that fewer maps are written and kept. Pure.
//
// A layer can be taken into its neighbour's node when nobody else reads what passes between them:
//   conv | linear, then relu | gelu                               the activation is done as the result is written
//   max_pool, batch_norm, then relu | gelu                        if asked: the pooling also finds the statistics
//   batch_norm, then add, then relu | gelu                        the end of a residual block
#pragma once

#include <string>
#include <vector>

#include "millrace/activation.h"
#include "millrace/network.h"

namespace millrace {

struct Node {
  enum class Kind { conv, linear, normalise, pool, activate, add, concat, dropout, scale, softmax, flatten, lrn };
  Kind kind = Kind::activate;
  int layer = -1;     // the conv, the batch_norm, ...: the layer that names the node
  int pool = -1;      // normalise: the max_pool before it, or -1
  int residual = -2;  // normalise: the layer whose output is added (Network::kInput: the input); -2: none
  Activation activation = Activation::none;
  std::vector<int> inputs;  // layers whose outputs it reads, the residual's last
  int output = -1;          // the layer whose output it makes
};

inline constexpr int kNoResidual = -2;

struct FusionOptions {
  std::string backend;                // for messages
  bool pool_with_statistics = false;  // take a max pooling without overlap into the batch normalisation behind it
};

// In an order in which each node's inputs come before it. Throws Error(usage) for an op that is none of the built-in ones.
std::vector<Node> fuse(const Network& network, const FusionOptions& options);

}  // namespace millrace
