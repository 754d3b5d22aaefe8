#include "millrace/buckets.h"

#include <algorithm>

namespace millrace {

std::vector<std::vector<int>> plan_buckets(const Network& network, std::size_t target_bytes) {
  std::vector<std::vector<int>> buckets;
  std::size_t filled = 0;
  std::size_t limit = std::min(target_bytes, kFirstBucketBytes);
  for (auto layer = network.layers.rbegin(); layer != network.layers.rend(); ++layer) {
    for (const int index : layer->parameters) {
      const Parameter& parameter = network.parameters[static_cast<std::size_t>(index)];
      if (!parameter.trainable) continue;
      const std::size_t bytes = static_cast<std::size_t>(parameter.shape.elements()) * sizeof(float);
      if (buckets.empty() || filled + bytes > limit) {
        if (!buckets.empty()) limit = target_bytes;
        buckets.emplace_back();
        filled = 0;
      }
      buckets.back().push_back(index);
      filled += bytes;
    }
  }
  return buckets;
}

}  // namespace millrace
