// Batch normalisations that are computed with the convolution before them, in replicas that only predict: their statistics are
// constants there, so they fold into its weights and bias.
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "memory_region.h"
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

// The weights and bias of one convolution with its normalisation, in the layout of the primitive that reads them.
struct FoldedWeights {
  const Layer *conv = nullptr, *norm = nullptr;
  dnnl::memory::desc canonical, desc;  // float32 in the network's order; as the primitive reads them
  MemoryRegion weights, bias;
  std::uint64_t version = 0;  // of the parameters they were computed from; 0: none

  std::size_t bias_bytes() const { return static_cast<std::size_t>(conv->output[0]) * sizeof(float); }
  std::size_t bytes() const { return desc.get_size() + bias_bytes(); }
  void allocate() {
    weights = MemoryRegion(desc.get_size());
    bias = MemoryRegion(bias_bytes());
  }
};

}  // namespace millrace::cpu
