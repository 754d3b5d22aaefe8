// How gradients are put into buckets: pure planning, the same for every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "millrace/backend/network.h"

namespace millrace {

inline constexpr double kToTheEnd = std::numeric_limits<double>::infinity();  // an epoch that does not come

struct Bucket {
  std::vector<int> parameters;  // indices into Network::parameters
  float* gradients = nullptr;   // device memory, contiguous; valid after start()
  std::size_t elements = 0;     // with whatever padding the device's layout has
  // Where each of `parameters` begins in `gradients`, in elements. What lies after the last gradient of one is padding, and 0.
  std::vector<std::size_t> offsets;
  // In batches of this epoch and later ones backward() leaves the bucket out: no layer of it learns, nor any that leads to one.
  double until_epoch = kToTheEnd;
};

// How many buckets backward() fills in batches of `epoch`: so many of the first. REQUIRES: `until_epoch` descends.
std::size_t filled_buckets(std::span<const Bucket> buckets, std::uint64_t epoch);

// Indices of the trainable parameters in the order in which backward completes them (last layers first), cut into buckets of
// whole parameters. No bucket holds more than `target_bytes` of float32 values unless it is one parameter alone. The first bucket
// aims at no more than kFirstBucketBytes, so that reducing it starts early, as in PyTorch's DistributedDataParallel.
// Empty when nothing is trained. `until`: by parameter, Bucket::until_epoch, by which buckets are cut and ordered first; empty:
// kToTheEnd.
inline constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
std::vector<std::vector<int>> plan_buckets(const Network& network, std::size_t target_bytes, std::span<const double> until = {});

}  // namespace millrace
