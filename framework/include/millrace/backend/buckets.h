// Plans the buckets of gradients. Pure planning, the same for every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "millrace/backend/network.h"

namespace millrace {

inline constexpr double kToTheEnd = std::numeric_limits<double>::infinity();  // an epoch that is never reached

struct Bucket {
  std::vector<int> parameters;  // indices into Network::parameters
  float* gradients = nullptr;   // device memory, contiguous; valid after start()
  std::size_t elements = 0;     // including the padding of the device's layout
  // Where each of `parameters` begins in `gradients`, in elements. The rest after a parameter's last gradient is padding, and 0.
  std::vector<std::size_t> offsets;
  // From this epoch on, backward() leaves the bucket out: neither its layers nor any layers before them learn.
  double until_epoch = kToTheEnd;
};

// Number of leading buckets that backward() fills in batches of `epoch`. REQUIRES: `until_epoch` descends.
std::size_t filled_buckets(std::span<const Bucket> buckets, std::uint64_t epoch);

// Indices of the trainable parameters in the order in which backward completes them (last layers first), cut into buckets of
// whole parameters. A bucket exceeds `target_bytes` of float32 values only if it holds a single parameter. The first bucket aims
// at no more than kFirstBucketBytes, so that reducing it starts early, as in PyTorch's DistributedDataParallel. Empty if nothing
// is trained. `until`: Bucket::until_epoch by parameter; buckets are first cut and ordered by it. Empty: kToTheEnd.
inline constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
std::vector<std::vector<int>> plan_buckets(const Network& network, std::size_t target_bytes, std::span<const double> until = {});

}  // namespace millrace
