// Networks compiled for a backend of a registry, with data for their losses: used by checks of layers and losses.
#pragma once

#include <memory>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/plugin.h"
#include "testkit/harness.h"

namespace millrace::conformance {

inline constexpr std::uint32_t kBatch = 6;

struct Made {
  std::shared_ptr<Backend> backend;
  std::unique_ptr<Device> device;
  std::unique_ptr<Replica> replica;
};

// Started, with random parameters.
Made compile(const Registry& registry, const char* backend, const Network& network, Precision precision, bool recompute = false,
             std::vector<std::shared_ptr<const Loss>> losses = {});

// Random images with labels of testkit::kExampleClasses.
Ref<Batch> batch_of(const Network& network);

// From an image to an output of this shape. `wide`: with many channels, which some backends lay out in blocks.
std::shared_ptr<const Network> network_for(const Registry& registry, const Shape& output, bool wide);

// A batch with all inputs of losses. Some images are mirrored or moved, and so are their targets, which are larger by `scale`.
struct LossData {
  LossData(const Network& network, const Loss& loss, int scale = 1, ImageShape image = {});
  Ref<Batch> batch;
  std::vector<std::uint8_t> targets;
  std::vector<float> numbers;
};

}  // namespace millrace::conformance
