#include "run/probe.h"

#include <algorithm>

#include "millrace/error.h"
#include "network/whitening.h"

namespace millrace {
namespace {

constexpr std::uint64_t kWhiteningImages = 5000;

std::vector<SampleTransform*> sample_transforms(const GraphBuild& build) {
  std::vector<SampleTransform*> transforms;
  for (std::size_t s = 0; s < build.stages().size(); ++s) {
    if (build.plan().stages[s].type->role == StageType::Role::batcher) break;
    if (auto* transform = dynamic_cast<SampleTransform*>(build.stages()[s].front().get())) transforms.push_back(transform);
  }
  return transforms;
}

// The centre of the image, without whatever augmentation was recorded.
void normalise(const Sample& sample, const Network& network, std::vector<std::uint8_t>& bytes, std::vector<float>& image) {
  const ImageShape window = network.input;
  AugmentationRecord centre;
  centre.x = static_cast<std::int16_t>((sample.image().shape.width - window.width) / 2);
  centre.y = static_cast<std::int16_t>((sample.image().shape.height - window.height) / 2);
  bytes.resize(window.bytes());
  apply_record(centre, sample.image(), window, bytes.data());
  image.resize(window.bytes());
  const auto channels = static_cast<std::size_t>(window.channels);
  const std::size_t pixels = bytes.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < pixels; ++p) {
      image[c * pixels + p] =
          static_cast<float>((static_cast<double>(bytes[p * channels + c]) / 255 - network.mean[c]) / network.deviation[c]);
    }
  }
}

}  // namespace

void probe_samples(const GraphBuild& build, const Network& network, std::uint64_t seed, std::uint64_t count,
                   const std::function<void(std::span<const float> image)>& take) {
  const std::vector<SampleTransform*> transforms = sample_transforms(build);
  Source& source = *build.source();
  Sample sample;
  std::vector<std::uint8_t> slot(build.image().bytes());
  std::vector<std::uint8_t> bytes;
  std::vector<float> image;
  for (std::uint64_t position = 0; position < count; ++position) {
    SampleKey key{.epoch = 0, .position = position};
    Draw draw(seed, key, hash_text("probe"));
    key.index = static_cast<std::uint64_t>(draw.integer(0, static_cast<std::int64_t>(source.size()) - 1));
    sample.reset(key, Image{slot.data(), build.image()});
    try {
      source.read(sample);
      for (SampleTransform* transform : transforms) transform->process(sample, draw);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::content) continue;
      throw;
    }
    normalise(sample, network, bytes, image);
    take(image);
  }
}

Weights initial_weights(const Network& network, std::uint64_t seed, const GraphBuild& build) {
  Weights weights;
  for (const Parameter& parameter : network.parameters) {
    if (parameter.initialiser.rule != "whiten") {
      weights.push_back(initial_values(parameter, seed));
      continue;
    }
    if (!build.source()) fail(ErrorKind::usage, "parameter '{}' is initialised by whitening, which needs a source", parameter.name);
    PatchStatistics patches(parameter.shape);
    probe_samples(build, network, seed, kWhiteningImages, [&](std::span<const float> image) {
      patches.add(image, network.input.height, network.input.width);
    });
    if (patches.patches() == 0) fail(ErrorKind::data, "parameter '{}' is initialised by whitening: no image could be read", parameter.name);
    weights.push_back(patches.filters());
  }
  return weights;
}

}  // namespace millrace
