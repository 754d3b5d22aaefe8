#include <algorithm>

#include "graph/graph.h"
#include "graph/guard.h"

namespace millrace {
namespace {

const Source* source_of(const std::vector<std::vector<std::shared_ptr<Stage>>>& stages) {
  for (const auto& instances : stages) {
    const auto* source = instances.empty() ? nullptr : dynamic_cast<const Source*>(instances.front().get());
    if (source != nullptr) return source;
  }
  return nullptr;
}

// Stages that make images of another shape than the batch's write them into its two scratch buffers. Varying shapes are unknown
// until the images are read.
std::size_t scratch_bytes(const std::vector<std::vector<std::shared_ptr<Stage>>>& stages, const ImageShape& slot) {
  std::size_t largest = 0, used = 0;
  for (const auto& instances : stages) {
    if (instances.empty()) continue;
    const ImageShape shape = instances.front()->image_shape();
    if (!shape.is_static() || shape == slot) continue;
    largest = std::max(largest, shape.bytes());
    used = std::min<std::size_t>(used + 1, 2);
  }
  return used * largest;
}

}  // namespace

std::size_t slot_bytes(const std::vector<std::vector<std::shared_ptr<Stage>>>& stages, const GraphOptions& options) {
  const Source* source = source_of(stages);
  const std::size_t encoded = source == nullptr ? 0 : source->largest_encoded() / 4 * 5;  // ByteBuffer rounds up like this
  const ImageShape& image = options.image;
  const std::size_t pixels = image.is_static() ? image.bytes() + options.target.shape(image).bytes() : 0;
  const std::size_t guards = options.guard ? pixels + 6 * flow::GuardedMemory::kGuard : 0;  // slots of image and target
  const std::size_t described = sizeof(Sample) + sizeof(AugmentationRecord) + sizeof(SourceMap);
  const std::size_t arrays = options.numbers * sizeof(float) + 2 * (sizeof(std::int32_t) + sizeof(float));
  return encoded + pixels + guards + described + arrays + 64 + scratch_bytes(stages, image);
}

}  // namespace millrace
