// Batch normalisations that are computed with the convolution before them, in replicas that only predict: their statistics are
// constants there, so they fold into its weights and bias.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "map_spec.h"
#include "millrace/backend/fusion.h"

namespace millrace::cpu {

class ParameterStore;

// The nodes with such normalisations, and what these have fused, moved into the node of their convolution. `outputs`: values that
// are read outside layers.
std::vector<Node> folded(const Network& network, std::vector<Node> nodes, std::span<const LayerPort> outputs);

// The normalisation that folded() moved into a node; null if there is none.
const Layer* folded_norm(const Network& network, const Node& node);

// The parameters of a batch normalisation in inference. The rest of the arguments is the caller's.
NormaliseArguments normalise_arguments(const ParameterStore& parameters, const Layer& norm);

// The weights of one convolution, with its normalisation, as its kernel reads them: computed once.
struct PreparedWeights {
  const Layer *conv = nullptr, *norm = nullptr;  // no norm: null
  std::string form;                              // distinguishes the kernels' forms
  std::size_t bytes = 0;
  // Writes `bytes` from float32 weights in the network's order.
  std::function<void(const float* weights, void* to)> fill;
  void* weights = nullptr;
  float* bias = nullptr;
  std::uint64_t version = 0;  // of the parameters that they were computed from; 0: none

  std::size_t channels() const { return static_cast<std::size_t>(conv->output[0]); }
  std::size_t all_bytes() const { return aligned(bytes) + aligned(channels() * sizeof(float)); }
};

}  // namespace millrace::cpu
