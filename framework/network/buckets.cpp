#include "millrace/backend/buckets.h"

#include <algorithm>
#include <functional>

namespace millrace {

std::size_t filled_buckets(std::span<const Bucket> buckets, std::uint64_t epoch) {
  const auto is_filled = [epoch](const Bucket& bucket) { return static_cast<double>(epoch) < bucket.until_epoch; };
  return static_cast<std::size_t>(std::ranges::partition_point(buckets, is_filled) - buckets.begin());
}

std::vector<std::vector<int>> plan_buckets(const Network& network, std::size_t target_bytes, std::span<const double> until) {
  const auto until_of = [until](int index) { return until.empty() ? kToTheEnd : until[static_cast<std::size_t>(index)]; };
  std::vector<int> order;
  for (auto layer = network.layers.rbegin(); layer != network.layers.rend(); ++layer) {
    for (const int index : layer->parameters) {
      if (network.parameters[static_cast<std::size_t>(index)].trainable) order.push_back(index);
    }
  }
  std::ranges::stable_sort(order, std::greater(), until_of);

  std::vector<std::vector<int>> buckets;
  std::size_t filled = 0;
  std::size_t limit = std::min(target_bytes, kFirstBucketBytes);
  for (const int index : order) {
    const Parameter& parameter = network.parameters[static_cast<std::size_t>(index)];
    const std::size_t bytes = static_cast<std::size_t>(parameter.shape.elements()) * sizeof(float);
    if (buckets.empty() || filled + bytes > limit || until_of(buckets.back().front()) != until_of(index)) {
      if (!buckets.empty()) limit = target_bytes;
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(index);
    filled += bytes;
  }
  return buckets;
}

}  // namespace millrace
