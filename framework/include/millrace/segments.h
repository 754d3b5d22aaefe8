// Which activations a backend keeps from forward until backward when it computes the others again: less memory for more work
// (Chen et al. 2016, arXiv 1604.06174). Pure.
//
// Nodes are cut into segments of consecutive ones. What a later segment reads is kept; what is read within its segment alone is
// let go after forward and computed again, segment by segment, as backward comes to it. The last segment is kept whole, since
// backward begins with it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/fusion.h"

namespace millrace {

// Where each segment ends: indices of nodes, the last of them nodes.size(). `bytes`: of what each node makes, by node. Chosen so
// that the most that is there at once in backward (what is kept up to a segment, and all of that segment) is smallest.
std::vector<int> plan_segments(const std::vector<Node>& nodes, std::span<const std::size_t> bytes);

// By node: its output is read behind its segment (or is the network's result).
std::vector<bool> kept_outputs(const std::vector<Node>& nodes, std::span<const int> segment_ends);

}  // namespace millrace
