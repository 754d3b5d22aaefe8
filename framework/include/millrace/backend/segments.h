// Chooses the activations that are kept from forward to backward; the others are recomputed: less memory for more work (Chen et
// al. 2016, arXiv 1604.06174). Pure.
//
// Consecutive nodes form segments. An activation that a later segment reads is kept. The others are released after forward, and
// recomputed when backward reaches their segment. The last segment is kept whole, since backward begins with it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/backend/fusion.h"

namespace millrace {

// The end of each segment: indices of nodes, the last of them nodes.size(). `bytes`: size of each node's output. Minimises the
// peak of backward: the kept activations up to a segment, plus all of that segment.
std::vector<int> plan_segments(const std::vector<Node>& nodes, std::span<const std::size_t> bytes);

// By node: whether its output is read after its segment (or is the network's result).
std::vector<bool> kept_outputs(const std::vector<Node>& nodes, std::span<const int> segment_ends);

}  // namespace millrace
