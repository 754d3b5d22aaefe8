// Looks at some samples of a graph before it runs, for initialisers that depend on the data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "millrace/backend/network.h"
#include "stages/build.h"

namespace millrace {

// Draws `count` samples at random (by the seed), takes each through the graph's sample stages on the calling thread, and hands
// over the pixels in the network's window, normalised as at ingest: (C, H, W) float32. Augmentation that is only recorded, not
// yet executed, is left out. Bad samples are passed over. REQUIRES: the graph has an open source.
void probe_samples(const GraphBuild& build, const Network& network, std::uint64_t seed, std::uint64_t count,
                   const std::function<void(std::span<const float> image)>& take);

// The values of a parameter that every replica starts from: its initialiser; "whiten" looks at 5,000 training images.
std::vector<float> first_values(const Parameter& parameter, const Network& network, std::uint64_t seed, const GraphBuild& build);

}  // namespace millrace
