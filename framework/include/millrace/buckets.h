// How gradients are put into buckets: pure planning, the same for every backend.
#pragma once

#include <cstddef>
#include <vector>

#include "millrace/network.h"

namespace millrace {

// Indices of the trainable parameters in the order in which backward completes them (last layers first), cut into buckets of
// whole parameters. No bucket holds more than `target_bytes` of float32 values unless it is one parameter alone. The first bucket
// aims at no more than kFirstBucketBytes, so that reducing it starts early, as in PyTorch's DistributedDataParallel.
// Empty when nothing is trained.
inline constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
std::vector<std::vector<int>> plan_buckets(const Network& network, std::size_t target_bytes);

}  // namespace millrace
