// Reads samples of a graph before it runs, for initialisers that depend on the data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "millrace/backend/network.h"
#include "stages/build.h"

namespace millrace {

// Draws `count` samples at random (by the seed), runs each through the graph's sample stages on the calling thread, and passes
// on the pixels in the network's window, normalised as at ingest: (C, H, W) float32. Leaves out augmentation that is recorded
// but not yet executed. Skips bad samples. REQUIRES: the graph has an open source.
void probe_samples(const GraphBuild& build, const Network& network, std::uint64_t seed, std::uint64_t count,
                   const std::function<void(std::span<const float> image)>& take);

// A parameter's initial values in every replica; the initialiser "whiten" reads 5,000 training images.
std::vector<float> first_values(const Parameter& parameter, const Network& network, std::uint64_t seed, const GraphBuild& build);

}  // namespace millrace
